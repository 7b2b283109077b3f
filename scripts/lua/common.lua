-- Stands in front of each script. A call carries out operations of one verb; each is atomic, and if
-- one fails, only that one fails.
--
-- KEYS    P..node, the node's record, where P is the prefix of all keys; then those of the operations.
--         docs/protocol.md says what is in them
-- ARGV    as many for each operation as its script says. Times are ms, ballots and tickets us
-- RUN     from a line that the client puts in front: the process that the script was loaded into
-- Returns 'SECONDS MICROSECONDS OPERATIONS', TIME and how many there were, if all went as asked.
--         Else a table: that text; why a message could not be published, or ''; and for each
--         operation that went otherwise {its number, a word, more}, as its script says, or
--         {its number, 'error', what Redis answered}

local KEEP, PERIOD = 105000, 35000
-- us. A ballot that is further ahead comes from a broken clock: it must not lift all names.
local FAR, AHEAD = 86400000000, 250000

local call, try, format, find, match = redis.call, redis.pcall, string.format, string.find, string.match
local max, min = math.max, math.min
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
-- Of the record, once it was read. Why a message could not be published. How many keys a name has.
local high, floor
local unpublished = ''
local group

-- Redis writes some numbers with an exponent.
local function digits(number)
  return format('%d', number)
end

-- Reads the record, and moves high to mid and mid to floor once a PERIOD.
local function read_record()
  if floor then return end
  local stored = call('HMGET', KEYS[1], 'high', 'floor', 'rotated')
  local to, below, rotated = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3])
  if not rotated or now < rotated or now >= rotated + PERIOD then
    if not rotated and call('HGETALL', KEYS[1])[1] then
      error({err = 'ERR the key ' .. KEYS[1] .. ' is no record of this protocol'})
    end
    local mid = tonumber(call('HGET', KEYS[1], 'mid') or 0)
    if rotated and now < rotated then
      -- The clock was set back, so nobody knows how long ago that was. Ballots that are too far
      -- ahead now are no floor for all names.
      to, below = min(to, micros + FAR), min(below, micros + FAR)
      mid = to
    elseif rotated and now >= rotated + 2 * PERIOD then
      mid = to
    end
    below = max(below, mid)
    call('HSET', KEYS[1], 'high', digits(to), 'mid', digits(to), 'floor', digits(below), 'rotated', digits(now))
  end
  high, floor = to, below
end

-- A ballot was granted, withdrawn, released, revoked, or came with a renewal.
local function raise_high(ballot)
  read_record()
  if ballot <= high or ballot > micros + FAR then return end
  local ahead = max(ballot, min(ballot, micros) + AHEAD)
  call('HSET', KEYS[1], 'high', digits(ahead))
  high = ahead
end

-- Why an operation failed, whose keys are from `first` to before `behind`. Before version 7 Redis puts
-- in front where in the script that was. It does not say which key is of another type.
local function explain(failure, first, behind)
  local text = string.gsub(type(failure) == 'table' and failure.err or tostring(failure), '^@?[%w_]+: ?%d+: %-?', '')
  if string.sub(text, 1, 9) ~= 'WRONGTYPE' then return text end
  local found, types = {}, {[0] = 'hash', 'hash', 'hash', 'zset', 'hash'}
  for at = first - 1, behind - 1 do
    local key = at < first and KEYS[1] or KEYS[at]
    local kind = try('TYPE', key).ok
    local right = types[at < first and 0 or (at - first) % group]
    if kind and kind ~= right and kind ~= 'none' then found[#found + 1] = 'the key ' .. key .. ' is a ' .. kind end
  end
  return found[1] and 'WRONGTYPE ' .. table.concat(found, ', ') or text
end

-- Carries out all operations. Each has so many arguments, of which the first is how many names it
-- has, and so many keys a name.
local function each(arguments, keys, carry_out)
  group = keys
  local replies, number, key = nil, 0, 2
  for at = 1, #ARGV, arguments do
    number = number + 1
    local behind = key + ARGV[at] * keys
    local ok, reply = pcall(carry_out, at, key)
    if not ok then reply = {'error', explain(reply, key, behind)} end
    if reply then
      table.insert(reply, 1, number)
      replies = replies or {'', ''}
      replies[#replies + 1] = reply
    end
    key = behind
  end
  local done = time[1] .. ' ' .. time[2] .. ' ' .. number
  if not replies and unpublished == '' then return done end
  replies = replies or {}
  replies[1], replies[2] = done, unpublished
  return replies
end
