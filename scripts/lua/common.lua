-- The first part of each script. One call carries out several operations of one verb. If one of
-- them fails, the others are still carried out. Times are in ms, ballots and tickets in us.
-- docs/keys.md lists the fields that nodes store.
--
-- KEYS    P..node, the node's record (P is the prefix of all keys); then the keys of each operation
-- ARGV    for each operation, the arguments in its script's head; the first is the number of names
-- Returns 'SECONDS MICROSECONDS OPERATIONS ID' if no operation returns a value and every message
--         was published: TIME, the number of operations, and the record's id or '-'. Otherwise a
--         table: this text; why a message was not published, or ''; and for each operation that
--         returns a value, the operation's number in the call (from 1), then the value. Beside the
--         values in its script's head, an operation may return 'forgot' (there is no record) or
--         'error' and the error's text.

local KEEP, PERIOD = 105000, 35000
-- FAR and AHEAD are in us. A ballot that is more than FAR ahead of TIME comes from a broken clock,
-- and must not raise the floor. To save writes, `high` is raised up to AHEAD too far.
local FAR, AHEAD = 86400000000, 250000

local call, try, format, match = redis.call, redis.pcall, string.format, string.match
local max, min = math.max, math.min
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
-- Fields of the record. `list_ends` is the field `until`. `list` is false if no list is in force.
local id, list, list_ends, high, mid, floor, rotated
-- `unpublished`: why a message was not published, or ''. `group`: how many of this script's KEYS
-- each name has; each() sets this number.
local unpublished, group = ''

-- Without free memory, Redis refuses a script whose first write may need memory (HSET, ZADD, SET).
-- Claims begin with one of these writes, so Redis refuses them. All other scripts begin with a
-- write that needs no memory (HDEL, PEXPIRE), or write nothing, so Redis carries them out.
-- `claims`: this is claim.lua. `inspects`: this is inspect.lua. `wrote`: keep() has written.
local claims, wrote, inspects = false, false, false

-- A number as text. Redis itself would write some numbers with an exponent.
local function digits(number)
  return format('%d', number)
end

-- Once a PERIOD, copies `mid` to `floor` and `high` to `mid`, so that floor <= mid <= high. If two
-- periods have passed since the last copy, `floor` and `mid` both become `high`. The same happens
-- if the clock was set back. In this case, `high` is first cut to FAR ahead of TIME.
local function rotate()
  if now >= rotated and now < rotated + PERIOD then return end
  if now < rotated then high = min(high, micros + FAR) end
  if now < rotated or now >= rotated + 2 * PERIOD then mid = high end
  floor, mid, rotated = mid, high, now
  if not claims then call('HDEL', KEYS[1], '') end
  call('HSET', KEYS[1], 'high', digits(high), 'mid', digits(mid), 'floor', digits(floor), 'rotated', digits(now))
end

-- The text of an error, for people. If a key has the wrong type, the text names the key: Redis does
-- not. Before version 7, Redis begins the text with a line number of the script, which is removed.
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

-- Carries out all operations of this call. `arguments`: how many ARGV an operation has. `keys`: how
-- many KEYS a name has. `carry_out` carries out one operation. `makes_record`: the operations need
-- no record.
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
