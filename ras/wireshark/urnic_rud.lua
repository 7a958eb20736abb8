-- RUD, uRNIC's transport over unreliable datagrams, for Wireshark and tshark.
-- docs/design/0014-rud.md of uRNIC has the tables that this file follows.
--
--   tshark -X lua_script:urnic_rud.lua -r FILE -Y urnic_rud
--
-- Where it is installed as a plugin, it is loaded without the option.
-- SPDX-License-Identifier: Apache-2.0

-- Loaded twice, as a plugin and by the option: the first one stays.
if pcall(Dissector.get, "urnic_rud") and Dissector.get("urnic_rud") then
  return
end

local rud = Proto("urnic_rud", "uRNIC reliable unordered datagrams")
rud.prefs.port = Pref.uint("UDP port", 54791, "The destination port of RUD")

local TYPES = {
  [1] = "Data", [2] = "Read request", [3] = "Third-party read request",
  [4] = "Third-party data", [5] = "FIFO", [6] = "Completion", [7] = "Notice",
  [8] = "State request",
}
local REASONS = { [0] = "state", [1] = "access" }
local STATUSES = { [0] = "complete" }
local CRC_STATES = { [0] = "Bad", [1] = "Good" }

-- Fields, by their names without "urnic_rud.".
local F = {}
local function add(name, make, ...)
  F[name] = make("urnic_rud." .. name, ...)
end
local function add_bit(name, text, mask)
  add(name, ProtoField.bool, text, 8, nil, mask)
end
local function add_context(name, text)
  add(name .. ".number", ProtoField.uint32, text .. ", number", base.DEC)
  add(name .. ".key", ProtoField.uint32, text .. ", key", base.HEX)
end
local function add_tid(name)
  add(name, ProtoField.uint64, "TID", base.HEX)
  add(name .. ".transfer", ProtoField.uint64, "Transfer", base.DEC)
  add(name .. ".attempt", ProtoField.uint8, "Attempt", base.DEC)
end
-- key (17 bits) | table (5) | offset (42). Wireshark 4.0 takes no mask of 64 bits
-- from Lua: so each part has the bytes in which it lies.
local OFFSET_MASK = UInt64.new(0xffffffff, 0x3ff)
local function add_pvo(name, text)
  add(name, ProtoField.uint64, text, base.HEX)
  add(name .. ".key", ProtoField.uint24, "Key", base.HEX, nil, 0xffff80)
  add(name .. ".table", ProtoField.uint8, "Table", base.DEC, nil, 0x7c)
  add(name .. ".offset", ProtoField.uint64, "Offset", base.HEX)
end

add("version", ProtoField.uint8, "Version", base.DEC, nil, 0xf0)
add("type", ProtoField.uint8, "Type", base.DEC, TYPES, 0x0f)
add("flags", ProtoField.uint8, "Flags", base.HEX)
add("flags.unknown", ProtoField.uint8, "Unknown", base.HEX, nil, 0xf0)
add_bit("flags.list", "Payload is a list of writes", 8)
add_bit("flags.marked", "What it answers was marked by ECN", 4)
add_bit("flags.answers_read", "Answers a read", 2)
add_bit("flags.fifo", "Payload goes to the receive FIFO", 1)
add("path", ProtoField.uint8, "Path", base.DEC)
add("notify", ProtoField.uint8, "Notify", base.HEX)
add("notify.unknown", ProtoField.uint8, "Unknown", base.HEX, nil, 0xf8)
add_bit("notify.third", "Third party", 4)
add_bit("notify.target", "Target", 2)
add_bit("notify.source", "Source", 1)
add("job", ProtoField.uint32, "Job id", base.DEC)
add("key", ProtoField.uint32, "Protection key", base.HEX)
add("window", ProtoField.uint32, "Target window", base.DEC, nil, 0xffffff)
add("source_window", ProtoField.uint32, "Source window", base.DEC, nil,
    0xffffff)
add("payload_bytes", ProtoField.uint16, "Bytes of payload", base.DEC)
add_context("context", "Context")
add_tid("tid")
add_pvo("pvo", "PVO")
add("total", ProtoField.uint32, "Bytes of the transfer", base.DEC)
add("offset", ProtoField.uint32, "Offset in the transfer", base.DEC)
add("stride", ProtoField.uint16, "Bytes of a full packet", base.DEC)
add("number", ProtoField.uint8, "Number of this packet", base.DEC)
add_context("source", "Context of the source")
add_pvo("source_pvo", "PVO at the source")
add_pvo("target_pvo", "PVO at the target")
add_context("target", "Context at the target")
add("packets", ProtoField.uint64, "Packets that are wanted", base.HEX)
add("third.address", ProtoField.ipv6, "Address of the third party")
add("third.window", ProtoField.uint32, "Window of the third party", base.DEC,
    nil, 0xffffff)
add_context("third.context", "Context of the third party")
add("tag", ProtoField.bytes, "Tag")
add("completion", ProtoField.none, "Entry")
add_context("completion.source", "Context of the source")
add_tid("completion.tid")
add("completion.status", ProtoField.uint8, "Status", base.DEC, STATUSES)
add("completion.path", ProtoField.uint8, "Path", base.DEC)
add("completion.of", ProtoField.framenum, "Newest packet of the transfer",
    base.NONE, frametype.REQUEST)
add("completed_in", ProtoField.framenum, "Completed in", base.NONE,
    frametype.RESPONSE)
add_context("notice.sender", "Context of the sender")
add("notice.reason", ProtoField.uint8, "Reason", base.DEC, REASONS)
add("notice.arrived", ProtoField.uint64, "Packets that have arrived", base.HEX)
add_pvo("notice.pvo", "PVO that was refused")
add_context("asker", "Context of the asker")
add("write", ProtoField.none, "Write")
add_pvo("write.pvo", "PVO")
add("write.bytes", ProtoField.uint16, "Bytes of data", base.DEC)
add("write.data", ProtoField.bytes, "Data")
add("payload", ProtoField.bytes, "Payload")
add("crc", ProtoField.uint32, "CRC32C", base.HEX)
add("crc.status", ProtoField.uint8, "CRC status", base.DEC, CRC_STATES)

-- What is wrong with a packet: one expert item for each kind of fault.
local E = {}
local function add_fault(name, text, group)
  E[name] = ProtoExpert.new("urnic_rud.bad." .. name, text,
                            group or expert.group.MALFORMED,
                            expert.severity.ERROR)
end
add_fault("version", "The version is not 1", expert.group.PROTOCOL)
add_fault("type", "No such type")
add_fault("flag", "Unknown flag")
add_fault("wish", "Unknown wish of a notification")
add_fault("truncated", "Shorter than its headers and CRC")
add_fault("payload_bytes", "The payload has another length than it says")
add_fault("offset", "The offset is not number times stride")
add_fault("number", "The transfer has no packet of this number")
add_fault("packets", "The transfer has more than 64 packets")
add_fault("stride", "A full packet has 0 bytes")
add_fault("payload", "The payload is not that of this packet")
add_fault("list", "Not a list of 1 to 64 whole writes")
add_fault("list_flags", "A list for the FIFO, an answer or a third party")
add_fault("mask", "Wants no packet, or one that the transfer does not have")
add_fault("completions", "Not 1 to 32 whole entries")
add_fault("status", "Unknown status")
add_fault("reason", "Unknown reason")
add_fault("crc", "The CRC is wrong", expert.group.CHECKSUM)

-- Wireshark wants lists.
local fields, experts = {}, {}
for _, field in pairs(F) do fields[#fields + 1] = field end
for _, fault in pairs(E) do experts[#experts + 1] = fault end
rud.fields = fields
rud.experts = experts

-- Wireshark's own library, or that of Lua 5.2. (Operators are an error there.)
local bits = bit or bit32
local bxor, band, rshift = bits.bxor, bits.band, bits.rshift

-- CRC32C, reflected: a table with the remainder of each byte.
local REMAINDERS = {}
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    local odd = band(crc, 1) == 1
    crc = rshift(crc, 1)
    if odd then crc = bxor(crc, 0x82f63b78) end
  end
  REMAINDERS[i] = crc
end
local function crc_of(text)
  local crc = -1
  for i = 1, #text do
    local index = band(bxor(crc, text:byte(i)), 0xff)
    crc = bxor(rshift(crc, 8), REMAINDERS[index])
  end
  return bxor(crc, -1) % 4294967296
end

-- 16 bytes, an IPv4 address as ::ffff:a.b.c.d.
local ip_src, ip_dst = Field.new("ip.src"), Field.new("ip.dst")
local ip6_src, ip6_dst = Field.new("ipv6.src"), Field.new("ipv6.dst")
local function last(field)
  local all = { field() }
  return all[#all]
end
-- The addresses of the innermost IP header, or nil.
local function addresses()
  local function raw(info) return info.range:bytes():raw() end
  local src, dst = last(ip_src), last(ip_dst)
  local src6, dst6 = last(ip6_src), last(ip6_dst)
  if src6 and (not src or src6.offset > src.offset) then
    return raw(src6) .. raw(dst6)
  end
  if not src then return nil end
  local prefix = string.rep("\0", 10) .. "\255\255"
  return prefix .. raw(src) .. prefix .. raw(dst)
end

-- Walks through a header and adds its fields to a tree.
local Cursor = {}
Cursor.__index = Cursor
function Cursor.new(tvb, at, tree)
  return setmetatable({ tvb = tvb, at = at, tree = tree }, Cursor)
end
function Cursor:take(count)
  local range = self.tvb(self.at, count)
  self.at = self.at + count
  return range
end
function Cursor:add(name, count)
  local range = self:take(count)
  return range, self.tree:add(F[name], range)
end
function Cursor:number(name, count)
  local range = self:add(name, count)
  return range:uint()
end
function Cursor:skip(count) self.at = self.at + count end
function Cursor:context(name)
  local number = self:number(name .. ".number", 4)
  return number, self:number(name .. ".key", 4)
end
-- Returns the text "transfer.attempt".
function Cursor:tid(name)
  local range, item = self:add(name, 8)
  item:add(F[name .. ".transfer"], range(0, 7))
  item:add(F[name .. ".attempt"], range(7, 1))
  local text = string.format("%s.%d", tostring(range(0, 7):uint64()),
                             range(7, 1):uint())
  item:append_text(" (" .. text .. ")")
  return text
end
function Cursor:pvo(name)
  local range, item = self:add(name, 8)
  item:add(F[name .. ".key"], range(0, 3))
  item:add(F[name .. ".table"], range(2, 1))
  item:add(F[name .. ".offset"], range(2, 6),
           range:uint64():band(OFFSET_MASK))
end

-- Frames of transfers, and the completions that name them. Filled at the first
-- pass, which sees the frames in their order.
local newest_of, data_of, completed_in
function rud.init()
  newest_of, data_of, completed_in = {}, {}, {}
end
-- What a completion and the packets of its transfer have in common: the
-- addresses, the context of the source, and the tid without the attempt, since
-- one completion ends all attempts.
local function transfer_key(from, to, number, key, tid)
  tid = tid:match("^%d+")
  return table.concat({ tostring(from), tostring(to), number, key, tid }, " ")
end

local function packets_of(total, stride)
  if total == 0 then return 1 end
  return math.floor((total - 1) / stride) + 1
end

-- Each function for a type dissects what is after the base header; it gets the
-- packet and a cursor. It sets packet.text, for people.
local function check_data(packet, total, offset, stride, number)
  local fault
  if stride == 0 then
    fault = "stride"
  elseif packets_of(total, stride) > 64 then
    fault = "packets"
  elseif number >= packets_of(total, stride) then
    fault = "number"
  elseif offset ~= number * stride then
    fault = "offset"
  elseif packet.payload ~= math.min(stride, total - offset) then
    fault = "payload"
  end
  if fault then packet.fault(fault) end
end

local function track_data(packet, number, key, tid)
  local pinfo = packet.pinfo
  if not pinfo.visited then
    local name = transfer_key(pinfo.src, pinfo.dst, number, key, tid)
    newest_of[name] = pinfo.number
    data_of[pinfo.number] = name
  end
  local done = completed_in[data_of[pinfo.number]]
  if done then packet.tree:add(F["completed_in"], done):set_generated() end
end

-- Each write is 10 bytes and its data, and the last one ends with the payload.
local function list(packet, cursor)
  if not packet.is_list then return end
  local tvb, whole, count, at = packet.tvb, cursor.tree, 0, cursor.at
  local seen = math.min(packet.stop, tvb:len())
  while count < 64 and at + 10 <= seen do
    count = count + 1
    local bytes = tvb(at + 8, 2):uint()
    local there = math.min(bytes, seen - at - 10)
    cursor.tree = whole:add(F["write"], tvb(at, 10 + there))
    cursor.tree:set_text(string.format("Write %d: PVO 0x%s, %d bytes", count,
                                       tvb(at, 8):bytes():tohex(true), bytes))
    cursor:pvo("write.pvo")
    cursor:add("write.bytes", 2)
    if there > 0 then cursor:add("write.data", there) end
    at = at + 10 + bytes
  end
  cursor.tree = whole
  local left = packet.stop - at
  -- A capture may hold less than the packet had.
  local cut = left >= 10 and count < 64
  if not cut and (left ~= 0 or count == 0) then packet.fault("list") end
  packet.text = string.format("%s, list of %d%s", packet.text, count,
                              cut and " or more" or "")
end

local function data(packet, cursor)
  local has_flag = band(packet.flags, 8) ~= 0
  packet.is_list = has_flag and packet.type == 1
  if has_flag and (packet.type == 4 or band(packet.flags, 3) ~= 0) then
    packet.fault("list_flags")
  end
  local context = cursor:context("context")
  local tid = cursor:tid("tid")
  if packet.is_list then cursor:skip(8) else cursor:pvo("pvo") end
  local total = cursor:number("total", 4)
  local offset = cursor:number("offset", 4)
  local stride = cursor:number("stride", 2)
  local number = cursor:number("number", 1)
  cursor:skip(1)
  local source, key = cursor:context("source")
  check_data(packet, total, offset, stride, number)
  track_data(packet, source, key, tid)
  packet.text = string.format(
      "packet %d, %d bytes at %d of %d, tid %s, context %d", number,
      packet.payload, offset, total, tid, context)
end

local function third(packet, cursor)
  local address = cursor:take(16)
  local item = cursor.tree:add(F["third.address"], address)
  local text = tostring(address:ipv6())
  -- Wireshark's text of such an address differs between its releases.
  if address(0, 12):bytes():tohex() == "00000000000000000000FFFF" then
    text = tostring(address(12, 4):ipv4())
    item:append_text(" (" .. text .. ")")
  end
  local window = cursor:number("third.window", 4) % 0x1000000
  cursor:skip(4)
  cursor:context("third.context")
  packet.text = string.format("%s, third party %s window %d", packet.text,
                              text, window)
end

-- A mask as text: "1-3, 7". `word` gets the bits from 0 on.
local function bits_of(range)
  local high, low = range(0, 4):uint(), range(4, 4):uint()
  local function is_set(i)
    if i >= 64 then return false end
    local word = i < 32 and low or high
    return math.floor(word / 2 ^ (i % 32)) % 2 == 1
  end
  local runs, first, highest = {}, nil, -1
  for i = 0, 64 do
    if is_set(i) then
      first, highest = first or i, i
    elseif first then
      runs[#runs + 1] = first == i - 1 and tostring(first)
          or string.format("%d-%d", first, i - 1)
      first = nil
    end
  end
  return #runs == 0 and "none" or table.concat(runs, ", "), highest
end
function Cursor:mask(name)
  local range, item = self:add(name, 8)
  local text, highest = bits_of(range)
  item:append_text(" (" .. text .. ")")
  return text, highest
end

local function read(packet, cursor)
  local context = cursor:context("context")
  local tid = cursor:tid("tid")
  cursor:pvo("source_pvo")
  cursor:pvo("target_pvo")
  local total = cursor:number("total", 4)
  local stride = cursor:number("stride", 2)
  cursor:skip(2)
  cursor:context("target")
  local wanted, highest = cursor:mask("packets")
  if stride == 0 then
    packet.fault("stride")
  elseif packets_of(total, stride) > 64 then
    packet.fault("packets")
  elseif highest < 0 or highest >= packets_of(total, stride) then
    packet.fault("mask")
  end
  packet.text = string.format("packets %s of %d bytes, tid %s, context %d",
                              wanted, total, tid, context)
end

local function completion(packet, cursor)
  local bytes = packet.payload
  if bytes == 0 or bytes % 20 ~= 0 or bytes > 640 then
    packet.fault("completions")
  end
  local pinfo, whole = packet.pinfo, cursor.tree
  for i = 1, math.min(math.floor(bytes / 20), 32) do
    cursor.tree = whole:add(F["completion"], packet.tvb(cursor.at, 20))
    local number, key = cursor:context("completion.source")
    local tid = cursor:tid("completion.tid")
    local status = cursor:number("completion.status", 1)
    if not STATUSES[status] then packet.fault("status") end
    local path = cursor:number("completion.path", 1)
    cursor:skip(2)
    cursor.tree:set_text(string.format(
        "Entry %d: context %d, tid %s, %s, path %d", i, number, tid,
        STATUSES[status] or "status " .. status, path))
    -- The packets of the transfer went the other way.
    local name = transfer_key(pinfo.dst, pinfo.src, number, key, tid)
    local of = data_of[pinfo.number .. " " .. i]
    if not pinfo.visited and newest_of[name] then
      of = newest_of[name]
      data_of[pinfo.number .. " " .. i] = of
      completed_in[name] = completed_in[name] or pinfo.number
    end
    if of then
      cursor.tree:add(F["completion.of"], of):set_generated()
    end
    if i == 1 then
      packet.text = string.format("context %d, tid %s", number, tid)
    elseif i <= 4 then
      packet.text = string.format("%s; context %d, tid %s", packet.text,
                                  number, tid)
    end
  end
  local count = math.floor(bytes / 20)
  if count > 4 then
    packet.text = string.format("%s; and %d more", packet.text, count - 4)
  end
end

local function notice(packet, cursor)
  local context = cursor:context("context")
  local tid = cursor:tid("tid")
  cursor:context("notice.sender")
  local reason = cursor:number("notice.reason", 1)
  if not REASONS[reason] then packet.fault("reason") end
  cursor:skip(7)
  local arrived = cursor:mask("notice.arrived")
  cursor:pvo("notice.pvo")
  packet.text = string.format("%s, tid %s, context %d, arrived %s",
                              REASONS[reason] or "reason " .. reason, tid,
                              context, arrived)
end

local function state_request(packet, cursor)
  local context = cursor:context("context")
  local tid = cursor:tid("tid")
  cursor:context("asker")
  packet.text = string.format("tid %s, context %d", tid, context)
end

local function fifo(packet, cursor)
  cursor:add("tag", 16)
  packet.text = string.format("%d bytes", packet.payload)
end

local function both(first, second)
  return function(packet, cursor)
    first(packet, cursor)
    second(packet, cursor)
  end
end
-- The bytes of all headers, and who reads them after the base header.
local READERS = {
  [1] = { 68, both(data, list) }, [2] = { 80, read },
  [3] = { 112, both(read, third) }, [4] = { 100, both(data, third) },
  [5] = { 40, fifo }, [6] = { 24, completion }, [7] = { 72, notice },
  [8] = { 48, state_request },
}
local HAS_PAYLOAD = { [1] = true, [4] = true, [5] = true, [6] = true }

local function add_crc(packet, tvb, tree)
  local at = tvb:len() - 4
  local stored = tvb(at, 4)
  local item = tree:add_le(F["crc"], stored)
  local covered = addresses()
  -- Of a packet that the capture has cut, the CRC is not there.
  if not covered or tvb:len() < tvb:reported_len() then return end
  local crc = crc_of(covered .. tvb(0, at):bytes():raw())
  local good = crc == stored:le_uint()
  item:append_text(good and " (right)"
                   or string.format(" (wrong, should be 0x%08x)", crc))
  tree:add(F["crc.status"], stored, good and 1 or 0):set_generated()
  if not good then packet.fault("crc") end
end

local function add_flags(packet, cursor)
  local flags, flags_item = cursor:add("flags", 1)
  for _, name in ipairs({ "unknown", "list", "marked", "answers_read",
                          "fifo" }) do
    flags_item:add(F["flags." .. name], flags)
  end
  packet.flags = flags:uint()
  if packet.flags > 15 then packet.fault("flag") end
  cursor:add("path", 1)
  local notify, notify_item = cursor:add("notify", 1)
  for _, name in ipairs({ "unknown", "third", "target", "source" }) do
    notify_item:add(F["notify." .. name], notify)
  end
  if notify:uint() > 7 then packet.fault("wish") end
end

-- Returns the bytes of payload that the header names.
local function add_base(packet, cursor)
  add_flags(packet, cursor)
  cursor:add("job", 4)
  cursor:add("key", 4)
  packet.window = cursor:number("window", 4) % 0x1000000
  cursor:add("source_window", 4)
  local bytes = cursor:number("payload_bytes", 2)
  cursor:skip(2)
  return bytes
end

-- The headers are whole.
local function dissect_rest(packet, cursor, said, reader)
  local tvb, tree = packet.tvb, packet.tree
  if said ~= packet.payload then
    packet.fault("payload_bytes")
  elseif packet.payload > 0 and not HAS_PAYLOAD[packet.type] then
    packet.fault("payload_bytes")
  end
  reader(packet, cursor)
  local count = math.min(packet.stop, tvb:len()) - cursor.at
  if packet.type ~= 6 and count > 0 then
    tree:add(F["payload"], tvb(cursor.at, count))
  end
end

local function dissect(packet)
  local tvb, tree = packet.tvb, packet.tree
  local length = tvb:reported_len()
  if tvb:len() < 24 or length < 28 then
    if length < 28 then packet.fault("truncated") end
    return "too short"
  end
  local cursor = Cursor.new(tvb, 0, tree)
  local first = cursor:take(1)
  tree:add(F["version"], first)
  tree:add(F["type"], first)
  local version = math.floor(first:uint() / 16)
  packet.type = first:uint() % 16
  if version ~= 1 then
    packet.fault("version")
    return "version " .. version
  end
  local said = add_base(packet, cursor)
  local reader = READERS[packet.type]
  if not reader then
    packet.fault("type")
    return "type " .. packet.type
  end
  local name = string.format("%s → %s", TYPES[packet.type],
                             packet.window == 0 and "group"
                             or string.format("window %d", packet.window))
  if length < reader[1] + 4 then
    packet.fault("truncated")
    return name .. ", too short"
  end
  -- A capture may hold less than the packet had.
  if tvb:len() < reader[1] then return name end
  packet.stop = length - 4
  packet.payload = packet.stop - reader[1]
  if packet.type == 6 and tvb:len() < length - 4 then return name end
  dissect_rest(packet, cursor, said, reader[2])
  add_crc(packet, tvb, tree)
  return packet.text and name .. ": " .. packet.text or name
end

function rud.dissector(tvb, pinfo, root)
  if tvb:len() == 0 then return 0 end
  local tree = root:add(rud, tvb())
  local packet = { tvb = tvb, pinfo = pinfo, tree = tree }
  local faults = ""
  packet.fault = function(name)
    tree:add_proto_expert_info(E[name])
    faults = faults .. "[bad " .. name:gsub("_", " ") .. "] "
  end
  pinfo.cols.protocol = "RUD"
  local text = dissect(packet)
  tree:append_text(", " .. text)
  pinfo.cols.info = faults .. text
  return tvb:len()
end

-- The preference may change while Wireshark runs.
local registered
local function register()
  local ports = DissectorTable.get("udp.port")
  if registered then ports:remove(registered, rud) end
  registered = rud.prefs.port
  ports:add(registered, rud)
end
rud.prefs_changed = register
register()
