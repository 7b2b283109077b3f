-- Holds names for another ttl: all of them or none.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note; of a permit those of
--         its gate behind them
-- ARGV    names   with the gate of a permit
--         owner
--         mode    'lock'; 'reader'; 'gate'; or 'permit', of a semaphore
--         kind    what the hold is: see P{name}
--         ttl
--         ballot  the token
--         count   hold count; of a gate or permit how many permits there are
--         note    number of the note, or -1: it has none. A lower one does not replace a higher one
--         age     how long ago the names were acquired
--         says    what the holder says of itself
-- Returns nothing if all names were held; healed: some had been free; lost, HOLDER: who holds one
--         or '' if locks with this token are over

group = 5

local function lost(it)
  if ballot <= it.over then return '' end
  if it.holder then return it.holder ~= owner and it.holder end
end

-- With this token at least: a late withdrawal of an earlier ask must not end it. What was handed
-- over is a plain lock before.
local function extend(it, count)
  it.ends, it.ttl = now + ttl, ttl
  local is_higher, with = ballot > it.fence, digits(max(it.ballot, ballot))
  it.fence = max(it.fence, ballot)
  if it.changed then it.changed.fence = nil end
  if it.permits then count = it.count end
  keep(it, 'until', digits(it.ends), 'ttl', digits(ttl), 'ballot', with, 'kind', kind, 'count', count, 'fence', digits(it.fence))
  if is_higher then heard(ballot) end
end

-- What the owner does not hold it takes again, and leaves the queue.
local function renew(it, count)
  local mine = it.holder == owner
  if is_reader then
    readers().read(it, owner, ttl, ballot)
  elseif mine then
    extend(it, count)
  else
    hold(it, owner, kind, ballot, count, ttl)
  end
  if mine then return end
  if it.queue then queue().leave(it) end
  if it.changed then keep(it) end
end

-- Nothing rests on the note.
local function describe(it, number, age, says)
  local key = KEYS[it.at + NOTE]
  local whose, known = unpack(call('HMGET', key, 'owner', 'number'))
  known = whose == owner and tonumber(known) or -1
  if known > number then return end
  local since = digits(now - age)
  call('HSET', key, 'owner', owner, 'number', digits(number), 'token', digits(ballot), 'since', since, 'says', says)
  call('PEXPIRE', key, digits(ttl + KEEP))
  if known < number then call('PUBLISH', it.lock .. ':news', it.lock) end
end

-- The gate remembers for as long how many permits there are, unless it knows of more or is a
-- lock's.
local function remember(it)
  local left = call('PTTL', it.lock)
  if left ~= -2 and not (it.permits and it.permits <= permits) then return end
  more().seat(it)
  more().put(it, 'fence', it.fence)
  more().store(it)
  call('PEXPIRE', it.lock, digits(max(left, ttl + KEEP)))
end

return each(10, 5, function(at, key)
  local mode, reply, number, age, says
  first, names, owner, mode, kind, ttl, ballot, permits, number, age, says = key, unpack(ARGV, at, at + 9)
  names, ttl, ballot, permits = names - (mode == 'permit' and 1 or 0), ttl + 0, ballot + 0, permits + 0
  is_reader, gate = mode == 'reader', mode == 'gate' and key
  local seen, count = look_all(), mode == 'lock' and digits(permits) or '1'
  local has_note = number ~= '-1' and kind ~= '0' and not is_reader
  for _, it in ipairs(seen) do
    local holder = lost(it)
    if holder then return {'lost', holder} end
  end
  for _, it in ipairs(seen) do
    if it.holder ~= owner then reply = {'healed'} end
    if it.at == gate then more().seat(it) end
    renew(it, count)
    if has_note then pcall(describe, it, number + 0, age, says) end
  end
  -- Nothing that the renewal comes to rests on it.
  if mode == 'permit' then pcall(function() remember(look(first + names * group)) end) end
  return reply
end)
