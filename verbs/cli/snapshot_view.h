#pragma once

// The images of queue pairs in snapshots (`urnic show snapshot`), for people.

#include <vector>

#include "ras/facts/facts.h"

namespace urnic {

// Replaces each fact "image", which is hexadecimal, by "summary", the line of
// `urnic state`, and by the members of the image as details; a later member
// with the same name is "name#2". If the image cannot be read, as one of
// another version, "problem" says why, and the image stays as a detail.
void DecodeImages(std::vector<Facts>& objects);

}  // namespace urnic
