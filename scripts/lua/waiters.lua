-- The waiters of a name in the order of their arrivals, with what each waiter sent in its last ask.

-- Reads a waiter from `key`. A waiter without a readable entry counts as dead. If the last ask is
-- ahead of TIME, the clock was set back, and this ask counts as made now.
local function waiter(key, who, arrival)
  local client, mark, number = match(who, '^(.*)/(s?)(%d+)$')
  local it = {who = who, arrival = arrival + 0, reads = mark == 's', number = number}
  it.channel = client and string.sub(KEYS[1], 1, -5) .. 'wake:' .. client
  local text = try('HGET', key, who)
  local lasts, again, asked, kind = match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  if not lasts then return it end
  it.lasts, it.kind, it.age, it.is_silent = lasts + 0, kind, max(now - asked, 0), now - asked > 2 * again
  if now < asked + 0 then write(key, who, format('%s %s %d %s', lasts, again, now, kind)) end
  return it
end

-- The waiter at place `at`. Reads three waiters at a time. Waiters that were first or second when
-- this operation began know their places: see tell().
local function waiting(it, at)
  local line = it.line or {}
  if not line[at] and not line.is_whole then
    local found = call('ZRANGE', KEYS[it.at + QUEUE], #line, #line + 2, 'WITHSCORES')
    for i = 1, #found, 2 do
      line[#line + 1] = waiter(KEYS[it.at + WAITING], found[i], found[i + 1])
      line[#line].knows = not it.line and i < 4
    end
    it.line, line.is_whole = line, #found < 6
  end
  return line[at]
end

local function wake(known, what)
  local done = known.channel and try('PUBLISH', known.channel, known.number .. ' ' .. what)
  -- A table is an error: the user has no right to publish.
  if type(done) == 'table' then unpublished = done.err end
end

-- Whether the waiter is live. If the user may not run PUBSUB, all clients count as subscribed.
local function lives(known)
  if known.lives then return true end
  if not known.channel or not known.lasts or known.is_silent then return false end
  local found = try('PUBSUB', 'NUMSUB', known.channel)
  known.lives = found.err or found[2] > 0
  return known.lives
end
