#pragma once

/*
 * PROCMAP_QUERY of <linux/fs.h>, which is newer than the headers of Debian 12:
 * an ioctl of /proc/self/maps that finds the mapping of an address.
 */

#include <stdint.h>
#include <sys/ioctl.h>

struct urnic_procmap_query {
  uint64_t size; /* of this struct */
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};

#define URNIC_PROCMAP_QUERY _IOWR('f', 17, struct urnic_procmap_query)

enum {
  /* Of vma_flags, and of query_flags: only a mapping with this right. */
  URNIC_PROCMAP_READABLE = 1,
  URNIC_PROCMAP_WRITABLE = 2,
  /* Of query_flags: if nothing is mapped there, the next mapping. */
  URNIC_PROCMAP_THIS_OR_NEXT = 0x10,
};
