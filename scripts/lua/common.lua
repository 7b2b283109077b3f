-- The first part of each script. One call carries out several operations of one verb, even if some
-- fail. docs/protocol.md explains the operations, docs/keys.md the stored fields. Times are in ms,
-- ballots and arrivals in us.
-- KEYS    P..node (P is the prefix of all keys); then the keys of each operation
-- ARGV    for each operation, the arguments in its script's head; the first is the number of names
-- Returns 'SECONDS MICROSECONDS OPERATIONS ID': TIME, the number of operations, and the record's id
--         or '-'. If an operation returns a value or a message was not published, returns a table:
--         this text; why a message was not published, or ''; for each value, the operation's number
--         (from 1) and the value. All may return 'error', TEXT; all but hello 'forgot' (no record)
local KEEP, PERIOD = 105000, 35000
-- FAR and AHEAD are in us. See *Floor* in docs/protocol.md.
local FAR, AHEAD = 86400000000, 250000

local call, try, format, match = redis.call, redis.pcall, string.format, string.match
local max, min = math.max, math.min
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
-- Fields of the record. `list_ends` is the field `until`. `list` is false if no list is in force.
local id, list, list_ends, high, mid, floor, rotated
-- `unpublished`: why a message was not published, or ''. `group`: how many KEYS each name has.
local unpublished, group = ''

-- Without free memory, Redis refuses a script whose first write may need memory (HSET, ZADD, SET).
-- Claims begin with such a write. All other scripts begin with a write that needs no memory (HDEL,
-- PEXPIRE), or write nothing. `claims`: this is claim.lua. `inspects`: this is inspect.lua.
-- `wrote`: keep() has written.
local claims, wrote, inspects = false, false, false

-- A number as text. Redis itself would write some numbers with an exponent.
local function digits(number)
  return format('%d', number)
end

-- Once a PERIOD, moves `high` to `mid` and `mid` to `floor`. See *Floor* in docs/protocol.md.
local function rotate()
  if now >= rotated and now < rotated + PERIOD then return end
  if now < rotated then high = min(high, micros + FAR) end
  if now < rotated or now >= rotated + 2 * PERIOD then mid = high end
  floor, mid, rotated = mid, high, now
  if not claims then call('HDEL', KEYS[1], '') end
  call('HSET', KEYS[1], 'high', digits(high), 'mid', digits(mid), 'floor', digits(floor), 'rotated', digits(now))
end

-- The text of an error, for people. Names the key that has the wrong type, because Redis does not.
-- Before version 7, Redis begins the text with a line number of the script.
local function explain(failure, first, last, keys)
  local text = type(failure) == 'table' and failure.err or tostring(failure)
  text = string.gsub(text, '^@?[%w_]+: ?%d+: %-?', '')
  if not string.find(text, '^WRONGTYPE') then return text end
  for at = first, last do
    local kind, right = redis.pcall('TYPE', KEYS[at]).ok, (at - first) % keys == 3 and 'zset' or 'hash'
    if kind and kind ~= right and kind ~= 'none' then return 'WRONGTYPE the key ' .. KEYS[at] .. ' is a ' .. kind end
  end
  return text
end

-- Carries out all operations of this call, each by `carry_out`. An operation has as many ARGV as
-- `arguments` says, and a name as many KEYS as `keys` says. `makes_record`: needs no record.
local function each(arguments, keys, carry_out, makes_record)
  local stored = try('HMGET', KEYS[1], 'id', 'list', 'until', 'high', 'mid', 'floor', 'rotated')
  id, list, list_ends, high, mid, floor, rotated = unpack(stored)
  if id then
    list_ends, high, mid, floor, rotated = (list_ends or 0) + 0, high + 0, mid + 0, floor + 0, rotated + 0
    list = list_ends > now and list
  end
  group = keys
  local replies, number, key = {'', ''}, 0, 2
  for at = 1, #ARGV, arguments do
    number = number + 1
    local behind, ok, reply = key + ARGV[at] * keys, true, nil
    if stored.err then
      reply = {'error', explain(stored, 1, 1, keys)}
    elseif id or makes_record then
      ok, reply = pcall(carry_out, at, key)
    else
      reply = {'forgot'}
    end
    if not ok then reply = {'error', explain(reply, key, max(key, behind - 1), keys)} end
    if reply then
      table.insert(reply, 1, number)
      replies[#replies + 1] = reply
    end
    key = behind
  end
  replies[1], replies[2] = format('%s %s %d %s', time[1], time[2], number, id or '-'), unpublished
  return (replies[3] or unpublished ~= '') and replies or replies[1]
end
