-- Stands in front of each script. A call carries out operations of one verb; if one fails, only that
-- one fails. docs/protocol.md says what is stored. Times are ms, ballots and tickets us.
--
-- KEYS    P..node, the node's record, where P is the prefix of all keys; then those of the operations
-- ARGV    as many for each operation as its script says; the first is how many names it has
-- Returns 'SECONDS MICROSECONDS OPERATIONS ID', TIME, how many there were and the record's id or '-',
--         if all went as asked. Else a table: that text; why a message could not be published, or '';
--         and for each operation that went otherwise {its number, a word, more}, as its script says:
--         'forgot' if there is no record; 'error', and what Redis answered

local KEEP, PERIOD = 105000, 35000
-- us. A ballot that is further ahead comes from a broken clock: it must not lift all names.
local FAR, AHEAD = 86400000000, 250000

local call, try, format, match = redis.call, redis.pcall, string.format, string.match
local max, min = math.max, math.min
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
-- Of the record. The list is false unless it is in force.
local id, list, list_ends, high, mid, floor, rotated
-- Why a message could not be published. How many keys a name has.
local unpublished, group = ''

-- Without memory Redis refuses a script only if its first write is one like HSET, ZADD or SET. So
-- claims begin with those, and may be refused; everything else begins with others, or writes nothing.
local claims, wrote, inspects = false, false, false

-- Redis writes some numbers with an exponent.
local function digits(number)
  return format('%d', number)
end

-- Moves high to mid and mid to floor once a PERIOD. So floor <= mid <= high, always. If the clock was
-- set back, nobody knows how old they are, and what is too far ahead now is no floor for all names.
local function rotate()
  if now >= rotated and now < rotated + PERIOD then return end
  if now < rotated then high = min(high, micros + FAR) end
  if now < rotated or now >= rotated + 2 * PERIOD then mid = high end
  floor, mid, rotated = mid, high, now
  if not claims then call('HDEL', KEYS[1], '') end
  call('HSET', KEYS[1], 'high', digits(high), 'mid', digits(mid), 'floor', digits(floor), 'rotated', digits(now))
end

-- Why an operation failed, for people. Redis does not say which of its keys is of another type, and
-- before version 7 it puts in front where in the script that was.
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

-- Carries out all operations, which have so many arguments each, and so many keys a name.
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
