-- What a node stores of a name. `redis-cli HGETALL 'quorumlock:{orders/42}'` shows it to a person.
--
-- KEYS of a name, as many of them as the script says:
--   P{name}          hash; a field that is not there is 0 or ''
--     owner            who holds the name, or held it last
--     until            when the hold ends, ms of TIME: over once that is reached. A release removes it
--     count            how often its process holds it
--     fence            the highest ballot that was granted or healed, or came with a release or a
--                      revocation
--     queue            1: somebody may wait
--     revoked          1: the hold is not renewed any more
--     turn, turn_until who may claim the free name first
--     released, released_until
--                      the owner that was last released here without holding the name: what comes
--                      late of that owner is refused
--     taken, taken_until
--                      the owners that were last revoked here, a line each; then '*' and a ballot:
--                      all readers with ballots up to that were
--     permits          the name is the gate of a semaphore with so many permits
--     readers          1: there may be some
--     read_fence       the highest ballot that was granted to a reader or came with its release:
--                      the ballots of readers need not be above it. Counts as fence once there are
--                      no readers
--   P{name}:readers  sorted set: owner -> until when it reads, with '!' behind a revoked one. Below
--                    zero: it was released, and is remembered for so long
--   P{name}:waiting  hash: acquisition -> for those that may be handed the name
--                    'LASTS MOST SINCE OWNER': how long a hand-over lasts, and lasts at most, and
--                    when it asked. For others 'TURN SINCE': how long its turn must last
--   P{name}:queue    sorted set: acquisition -> ticket
--   P{name}:note     hash: what its holder says of itself
--
-- P{name} expires KEEP after the later of the end of its hold and its last change: by then floor is
-- above its fence. If that is more than a day ahead of TIME, KEEP after TIME has reached it. With
-- `taken` not before taken_until; a gate not before the permits that renewals told of.

-- Lua makes the functions of a script anew at each call. Those that few operations need are made by
-- more(), readers() and queue(), when the first operation needs them.

local LONGEST_TURN, REMEMBERED, LONGEST_TTL = 60000, 3600000, 86400000

-- The operation that is carried out, as its script says. Each name has `group` keys, the first name
-- from `first` on. `gate` is where the keys of a semaphore's gate begin.
local names, owner, is_reader, ttl, ballot, permits, gate, wait, ticket, grace, hand
local first, group

-- Without memory Redis refuses a script only if its first write is one like HSET, ZADD or SET. So
-- claims begin with those, and are refused; everything else begins with others, and goes on.
local claims = false

-- Where its other keys are, behind it.at.
local READERS, WAITING, QUEUE, NOTE = 1, 2, 3, 4

local made_more
local function more()
  if made_more then return made_more end
  made_more = {}
  local more = made_more

  -- Changes a field, or removes it. keep() stores it.
  function more.put(it, field, value)
    it.changed = it.changed or {}
    it[field], it.changed[field] = value, value or false
  end

  function more.end_turn(it)
    more.put(it, 'turn')
    more.put(it, 'turn_until')
  end

  -- Who reads: the last of them; and whether a reader itself reads, was released, or was revoked.
  local function look_at_readers(it)
    local last, till = unpack(call('ZREVRANGE', KEYS[it.at + READERS], 0, 0, 'WITHSCORES'))
    if not last then
      more.put(it, 'fence', it.bar)
      more.put(it, 'readers')
      more.put(it, 'read_fence')
      return
    end
    it.read_ends = tonumber(till)
    if it.read_ends > now then it.reader = match(last, '^[^!]*') end
    if not is_reader then
      if it.reader and not it.holder then it.holder, it.holds_until = it.reader, it.read_ends end
      return
    end
    local mine = tonumber(call('ZSCORE', KEYS[it.at + READERS], owner) or 0)
    local marked = tonumber(call('ZSCORE', KEYS[it.at + READERS], owner .. '!') or 0)
    it.dismissed, it.marked = mine < -now and owner, marked > now and owner
    if max(mine, marked) > now then it.holder, it.holds_until = owner, max(mine, marked) end
  end

  -- Nothing is further ahead than it may be, unless the clock was set back.
  local function look_until(it, field, till, most)
    it[till] = min(tonumber(it[till] or 0), now + most)
    if it[field] and it[till] <= now then
      more.put(it, field)
      more.put(it, till)
    end
  end

  function more.look(it)
    it.permits, it.read_fence = tonumber(it.permits), tonumber(it.read_fence)
    it.bar = max(it.fence, it.read_fence or 0)
    if it.turn and it.turn_until - now > LONGEST_TURN then it.turn_until = 0 end
    look_until(it, 'turn', 'turn_until', LONGEST_TURN)
    look_until(it, 'released', 'released_until', KEEP)
    look_until(it, 'taken', 'taken_until', REMEMBERED)
    if it.readers then look_at_readers(it) end
    -- The ballots of readers need not be above each other.
    if is_reader then it.bar = it.fence end
  end

  -- Stores what put() has changed.
  function more.store(it)
    local sets, drops = {}, {}
    for field, value in pairs(it.changed) do
      if value then
        sets[#sets + 1] = field
        sets[#sets + 1] = value == true and '1' or type(value) == 'number' and digits(value) or value
      else
        drops[#drops + 1] = field
      end
    end
    if sets[1] then call('HSET', it.lock, unpack(sets)) end
    if drops[1] then call('HDEL', it.lock, unpack(drops)) end
    it.changed = nil
  end

  -- Whether this owner was revoked here. With a ballot also a reader that does not read, if all
  -- readers with ballots up to that were.
  function more.is_revoked(it, who, read_with)
    if it.marked == who or it.revoked and it.owner == who then return true end
    if not it.taken then return false end
    local taken = '\n' .. it.taken .. '\n'
    local all = read_with and it.holder ~= who and tonumber(match(taken, '\n%*(%d+)') or -1)
    return find(taken, '\n' .. who .. '\n', 1, true) ~= nil or all and read_with <= all
  end

  -- Whether what comes late of this owner is to change nothing: it was released or revoked here.
  function more.is_gone(it, who)
    if it.owner == who and it.ends == 0 then return true end
    return it.released == who or it.dismissed == who or more.is_revoked(it, who)
  end

  function more.acquisition(who)
    return match(who, '^(.*)%.%d+$') or who
  end

  -- Whether an acquisition is a reader's.
  function more.reads(acquisition)
    return find(acquisition, '/s%d+$') ~= nil
  end

  -- A lock and the gate of a semaphore have one key. What waits for fewer permits is handed nothing
  -- until it asks again.
  function more.seat(it)
    if it.permits and it.permits >= permits then return end
    if it.permits then
      for _, who in ipairs(try('HKEYS', KEYS[it.at + WAITING])) do call('HDEL', KEYS[it.at + WAITING], who) end
    end
    more.put(it, 'permits', permits)
  end

  -- A reader that was not revoked. Those that were are looked at so many at a time.
  function more.another_reader(it)
    local from, reading = 0
    repeat
      reading = call('ZREVRANGEBYSCORE', KEYS[it.at + READERS], '+inf', '(' .. digits(now), 'LIMIT', from, 1000)
      for _, reader in ipairs(reading) do
        if string.sub(reader, -1) ~= '!' then return reader end
      end
      from = from + 1000
    until #reading < 1000
  end

  return more
end

-- What is stored of a name, and who holds it: for a reader itself, or the writer that keeps it out;
-- for others the writer, or the last reader.
local function look(at)
  local lock, stored = KEYS[at], call('HGETALL', KEYS[at])
  -- A table that has room for all this need not grow.
  local it = {owner = false, ['until'] = false, count = false, fence = false, at = at, lock = lock, ends = 0, holder = nil}
  for i = 1, #stored, 2 do it[stored[i]] = stored[i + 1] end
  if stored[1] and not it.fence then error({err = 'ERR the key ' .. lock .. ' is no lock of this protocol'}) end
  it.at, it.lock, it.ends, it.fence = at, lock, (it['until'] or 0) + 0, (it.fence or 0) + 0
  if it.ends > now then it.holder = it.owner end
  if it.turn or it.released or it.taken or it.permits or it.readers then more().look(it) end
  return it
end

local function look_all()
  local seen = {}
  for i = 1, names do seen[i] = look(first + (i - 1) * group) end
  return seen
end

-- Stores these fields and what put() has changed. The key expires when the floor is above its
-- fence.
local function keep(it, ...)
  local last, fence = max(it.ends, now), it.fence
  if it.read_ends then last, fence = max(last, it.read_ends), max(fence, it.read_fence or 0) end
  local till = last
  if fence > micros + FAR then till = max(last, math.ceil(fence / 1000)) end
  if it.taken then till = max(till, it.taken_until - KEEP) end
  if it.permits then till = max(till, now + min(call('PTTL', it.lock), LONGEST_TTL) - KEEP) end
  local lasts = format('%d', till + KEEP - now)
  local done = not claims and call('PEXPIRE', it.lock, lasts) == 1
  if ... then call('HSET', it.lock, ...) else call('HSET', it.lock, 'fence', digits(it.fence)) end
  if it.changed then more().store(it) end
  if not done then call('PEXPIRE', it.lock, lasts) end
  -- The ballot may have been too far ahead for the record when it was granted.
  if fence > last * 1000 then heard(fence) end
end

local function hold(it, who, count, till, fence)
  it.owner, it.ends, it.fence = who, till, fence
  if it.revoked then more().put(it, 'revoked') end
  if it.changed then it.changed.fence = nil end
  keep(it, 'owner', who, 'until', format('%d', till), 'count', count, 'fence', format('%d', fence))
  heard(fence)
  -- No reader that is over comes back if the clock is set back.
  if it.readers then call('ZREMRANGEBYSCORE', KEYS[it.at + READERS], digits(-now), digits(now)) end
end
