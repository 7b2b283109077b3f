-- Reads and changes a name and its lock. docs/keys.md lists the keys and fields of a name.

-- How long a revocation is remembered, in ms: longer than any ttl.
local REMEMBERED = 90000000
-- Offsets of a name's other keys from `it.at`, the index of the name's first key in KEYS.
local READERS, WAITING, QUEUE, NOTE = 1, 2, 3, 4
-- The present operation's arguments, as its script's head lists them. `first`: the index of its
-- first key in KEYS. `lasts`: H. `next_ballot`: `next`.
local first, names, owner, is_reader, kind, ttl, ballot, arrival, lasts, again, next_ballot

-- Each call of a script makes its functions anew. So more() makes the functions of readers.lua,
-- waiters.lua and queue.lua, which few calls need, on demand: see script.rs.
local more, made

-- Reads a name and finds its holder. For a reader's operation, this is the reader, if it holds the
-- name, or else the writer. For other operations, it is the writer, or else last_reader().
local function look(at)
  local lock, stored = KEYS[at], call('HGETALL', KEYS[at])
  -- Set these fields first, so that the table need not grow while it is filled.
  local it = {owner = false, ['until'] = false, ballot = false, count = false, fence = false, at = at}
  for i = 1, #stored, 2 do it[stored[i]] = stored[i + 1] end
  if stored[1] and not it.fence then error({err = 'ERR the key ' .. lock .. ' is no lock of this protocol'}) end
  it.at, it.lock, it.ends, it.kind = at, lock, (it['until'] or 0) + 0, (it.kind or 0) + 0
  it.fence, it.read_fence = (it.fence or 0) + 0, (it.read_fence or 0) + 0
  it.over, it.ballot, it.reading = (it.over or 0) + 0, (it.ballot or 0) + 0, {}
  if it.ttl and it.ends > now + it.ttl then
    it.ends = now + it.ttl
    more().write(lock, 'until', digits(it.ends))
  end
  if it.ends > now then it.holder, it.holds_until, it.holds_with = it.owner, it.ends, it.ballot end
  if it.readers then more().look(it) end
  it.bar = max(it.fence, floor)
  return it
end

local function look_all()
  local seen = {}
  for i = 1, names do seen[i] = look(first + (i - 1) * group) end
  return seen
end

local function free(it)
  call('HDEL', it.lock, 'until', 'ttl', 'owner', 'kind', 'ballot', 'count')
  it.ends, it.owner = 0, nil
end

-- Stores the fences of a name, and the fields that follow `it`. docs/protocol.md, "What a node
-- stores", says when the key expires.
local function keep(it, ...)
  local last, fence = max(it.ends, now, it.read_ends or 0), max(it.fence, it.read_fence)
  local till = fence > micros + FAR and max(last, math.ceil(fence / 1000)) or last
  local expires = digits(max(till + KEEP, min(it.revoked_until or 0, now + REMEMBERED)) - now)
  -- Except in claims, PEXPIRE comes first: it needs no memory, so Redis does not refuse the script.
  local done = not claims and call('PEXPIRE', it.lock, expires) == 1
  call('HSET', it.lock, 'fence', digits(it.fence), ...)
  if it.reader then
    call('HSET', it.lock, 'readers', '1', 'read_fence', digits(it.read_fence))
  elseif it.readers then
    call('HDEL', it.lock, 'readers', 'read_fence')
  end
  if not done then call('PEXPIRE', it.lock, expires) end
  wrote, it.readers = true, it.reader
  if fence > high and fence <= micros + FAR then
    high = max(fence, min(fence, micros) + AHEAD)
    call('HSET', KEYS[1], 'high', digits(high))
  end
end

local function hold(it, who, what, with, count, ttl)
  it.owner, it.kind, it.ends, it.ttl, it.fence = who, what + 0, now + ttl, ttl, max(it.fence, with)
  local till = digits(it.ends)
  keep(it, 'owner', who, 'kind', what, 'ballot', digits(with), 'until', till, 'ttl', digits(ttl), 'count', count)
end
