-- Holds names for another ttl: all of them or none.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note; of a permit those of
--         its gate behind them
-- ARGV    names   with the gate of a permit
--         owner
--         mode    'lock'; 'reader'; 'gate'; or 'permit', of a semaphore
--         ttl, ballot
--         count   hold count; of a gate or permit how many permits there are
--         note    number of the note, or -1: it has none. A lower one does not replace a higher one
--         age     how long ago the names were acquired
--         says    what the holder says of itself
-- Returns nothing if all names were held; healed: some had been free; lost, HOLDER: who holds one
--         or whose turn it is; or '' if this owner was released or revoked

group = 5

local function lost(it)
  if it.holder == owner then return (it.marked or it.revoked and not is_reader) and '' end
  if it.holder then return it.holder end
  if it.turn and not (is_reader and more().reads(it.turn)) then return it.turn end
  -- A renewal that comes late must not revive what was released or revoked.
  return (more().is_gone(it, owner) or is_reader and more().is_revoked(it, owner, ballot)) and ''
end

local function extend(it, count)
  if is_reader then
    readers().read(it)
    return keep(it)
  end
  it.ends = now + ttl
  keep(it, 'until', digits(it.ends), 'count', count)
end

local function heal(it, count)
  if is_reader then return readers().admit(it) end
  hold(it, owner, count, now + ttl, max(it.bar or it.fence, ballot))
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

return each(9, 5, function(at, key)
  local mode, reply, number, age, says
  first, names, owner, mode, ttl, ballot, permits, number, age, says = key, unpack(ARGV, at, at + 8)
  names, ttl, ballot, permits = names - (mode == 'permit' and 1 or 0), ttl + 0, ballot + 0, permits + 0
  is_reader, gate = mode == 'reader', mode == 'gate' and key
  local seen, count = look_all(), mode == 'lock' and digits(permits) or '1'
  -- No reader has one, nor has an owner whose round does not begin with a zero.
  local has_note = number ~= '-1' and not is_reader and find(owner, '%.0%d+$')
  for i = 1, names do
    local holder = lost(seen[i])
    if holder then return {'lost', holder} end
  end
  for i = 1, names do
    local it = seen[i]
    if it.at == gate then more().seat(it) end
    if it.holder then
      extend(it, count)
    else
      heal(it, count)
      reply = {'healed'}
    end
    if has_note then pcall(describe, it, number + 0, age, says) end
  end
  -- Nothing that the renewal comes to rests on it.
  if mode == 'permit' then pcall(function() remember(look(first + names * group)) end) end
  return reply
end)
