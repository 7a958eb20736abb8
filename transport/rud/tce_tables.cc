#include "transport/rud/tce_tables.h"

#include "transport/base/check.h"

namespace urnic::rud {

TceTables::TceTables(std::span<Tce> storage, uint64_t seed)
    : entries_(storage.size() / kTables) {
  URNIC_CHECK(entries_ != 0);
  Random random(seed);
  for (uint32_t i = 0; i < kTables; ++i) {
    tables_[i].tces = &storage[i * entries_];
    tables_[i].next_key = static_cast<uint32_t>(random.Next());
  }
}

std::optional<Pvo> TceTables::Register(uint32_t job, uint64_t address,
                                       uint64_t length, uint32_t access,
                                       PageSize size) {
  URNIC_CHECK(job != 0 && length != 0 && address + length > address);
  const uint32_t shift = PageShift(size);
  Table* unowned = nullptr;
  for (Table& table : tables_) {
    const uint32_t owner = table.job.load(std::memory_order_relaxed);
    if (owner == 0 && table.used.empty() && unowned == nullptr)
      unowned = &table;
    if (owner != job || table.shift != shift) continue;
    const std::optional<Pvo> pvo = RegisterIn(table, address, length, access);
    if (pvo.has_value()) return pvo;
  }
  if (unowned == nullptr) return std::nullopt;
  unowned->shift = shift;
  const std::optional<Pvo> pvo = RegisterIn(*unowned, address, length, access);
  if (pvo.has_value()) unowned->job.store(job, std::memory_order_release);
  return pvo;
}

std::optional<uint64_t> TceTables::FindFree(const Table& table,
                                            uint64_t count) const {
  uint64_t from = 0;
  for (const auto& [begin, end] : table.used) {
    if (begin - from >= count) return from;
    from = end;
  }
  if (entries_ - from >= count) return from;
  return std::nullopt;
}

std::optional<Pvo> TceTables::RegisterIn(Table& table, uint64_t address,
                                         uint64_t length, uint32_t access) {
  const uint64_t page = uint64_t{1} << table.shift;
  const uint64_t first_page = address & ~(page - 1);
  const uint64_t count = (address + length - 1 - first_page) / page + 1;
  const std::optional<uint64_t> first = FindFree(table, count);
  const uint64_t most = (uint64_t{1} << Pvo::kOffsetBits) >> table.shift;
  if (!first.has_value() || *first + count > most) return std::nullopt;
  table.used[*first] = *first + count;
  uint32_t key = ++table.next_key & ((1u << Pvo::kKeyBits) - 1);
  if (key == 0) key = ++table.next_key & ((1u << Pvo::kKeyBits) - 1);
  for (uint64_t i = 0; i < count; ++i) {
    Tce& tce = table.tces[*first + i];
    tce.access = access;
    tce.page = first_page + i * page;
    tce.begin = address;
    tce.end = address + length;
    tce.key.store(key, std::memory_order_release);
  }
  const auto index = static_cast<uint32_t>(&table - tables_);
  return Pvo::Make(key, index,
                   (*first << table.shift) | (address - first_page));
}

void TceTables::Retire(Table& table, const UsedRange& range) {
  if (table.tces[range.first].key.load(std::memory_order_relaxed) == 0) return;
  for (uint64_t i = range.first; i < range.second; ++i)
    table.tces[i].key.store(0, std::memory_order_release);
  table.retired.push_back(range.first);
}

bool TceTables::Deregister(uint32_t job, Pvo pvo) {
  Table& table = tables_[pvo.table()];
  const PvoTranslation found = Check(job, pvo, 0, 0);
  const auto range = table.used.find(pvo.offset() >> table.shift);
  if (found.fault != PvoFault::kNone || range == table.used.end()) return false;
  if (found.address != table.tces[range->first].begin) return false;
  Retire(table, *range);
  return true;
}

void TceTables::Disown(uint32_t job) {
  for (Table& table : tables_) {
    if (job == 0 || table.job.load(std::memory_order_relaxed) != job) continue;
    table.job.store(0, std::memory_order_release);
    for (const UsedRange& range : table.used) Retire(table, range);
  }
}

void TceTables::Reclaim() {
  for (Table& table : tables_) {
    for (const uint64_t from : table.retired) table.used.erase(from);
    table.retired.clear();
  }
}

}  // namespace urnic::rud
