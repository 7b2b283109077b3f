-- The queue of a name, and the hand-over of the name to a waiter.

-- Removes `who` from the queue. Returns whether `who` had a place.
local function drop(it, who)
  waiting(it, 1)
  -- A claim must begin with a write that Redis refuses without free memory: see common.lua.
  if claims and not wrote then call('HSET', it.lock, 'queue', '1') end
  if call('ZREM', KEYS[it.at + QUEUE], who) == 0 then return false end
  try('HDEL', KEYS[it.at + WAITING], who)
  for place, known in ipairs(it.line) do
    if known.who == who then table.remove(it.line, place) end
  end
  if not waiting(it, 1) then
    call('HDEL', it.lock, 'queue')
    it.queue = nil
  end
  return true
end

-- The first live waiter before the place of this operation's owner; nil if there is none. Drops the
-- dead waiters before it. For a reader's claim (`by_claim`), skips waiting readers.
local function head(it, by_claim)
  local at, known = 1, waiting(it, 1)
  while known and known.who ~= owner do
    if by_claim and is_reader and known.reads then
      at = at + 1
    elseif lives(known) then
      return known
    else
      drop(it, known.who)
    end
    known = waiting(it, at)
  end
end

-- Sends hints to waiters that became first or second. If `is_stuck` (a free name could not be
-- handed over), tells the first two waiters to ask at once.
local function tell(it, is_stuck)
  for at = 1, it.line and 2 or 0 do
    local known = waiting(it, at)
    if known and (is_stuck or not known.knows) then
      known.knows = true
      wake(known, digits(not is_stuck and known.lasts and max(known.lasts / 2 - known.age, 0) or 0))
    end
  end
end

local function leave(it)
  local had = drop(it, owner)
  tell(it)
  return had
end

-- Gives this operation's owner a place, or renews its place. Returns the place, counted from 1.
local function join(it)
  local queue, said = KEYS[it.at + QUEUE], KEYS[it.at + WAITING]
  local expires = digits(max(2 * again + 1, call('PTTL', queue)))
  call('HSET', said, owner, format('%d %d %d %s', lasts, again, now, kind))
  call('PEXPIRE', said, expires)
  call('ZADD', queue, arrival, owner)
  call('PEXPIRE', queue, expires)
  if not it.queue then call('HSET', it.lock, 'queue', '1') end
  return call('ZRANK', queue, owner) + 1
end

-- Hands the name over with the ballot `with`, if its holders allow that: to the first live waiter
-- or, if this is a reader, to all readers before the first live writer. If `with` is too low,
-- returns the first live waiter instead.
local function hand_over(it, with)
  local known, is_stuck
  while it.ends <= now and it.queue and not is_stuck do
    known = head(it)
    if not known or it.reader and not known.reads then break end
    is_stuck = with <= max(it.fence, floor)
    if not is_stuck then
      local who, lasts = known.who, known.lasts
      drop(it, who)
      if known.reads then read(it, who, lasts, with) else hold(it, who, known.kind, with, '1', lasts) end
      wake(known, format('%s %d %d %d %s %s', who, with, micros, lasts, id, it.lock))
    end
  end
  tell(it, is_stuck)
  return is_stuck and known.who
end

return {
  write = write, last_reader = last_reader, settle = settle, look = look, read = read,
  head = head, leave = leave, join = join, hand_over = hand_over
}
