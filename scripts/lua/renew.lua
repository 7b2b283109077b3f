-- Makes the owner's hold of each name last another ttl, or changes nothing: see docs/protocol.md.
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names, owner, mode ('lock' or 'reader'), kind, ttl, token, ballot, count (of guards),
--         note (its number; -1: none), age (ms since the names were acquired), says (the note)
-- Returns nothing if the owner held all names; healed if a name was free; lost, HOLDER if another
--         owner holds a name; lost, '' if locks with this token are released or revoked

-- Stores the note, unless a later note is stored already. The renewal is valid even if the note
-- cannot be stored.
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

return each(11, 5, function(at, key)
  local mode, token, count, reply, number, age, says
  first, names, owner, mode, kind, ttl, token, ballot, count, number, age, says = key, unpack(ARGV, at, at + 10)
  names, ttl, token, ballot, is_reader = names + 0, ttl + 0, token + 0, ballot + 0, mode == 'reader'
  rotate()
  local seen = look_all()
  for _, it in ipairs(seen) do
    if token <= it.over then return {'lost', ''} end
    if it.holder and it.holder ~= owner then return {'lost', it.holder} end
  end
  for _, it in ipairs(seen) do
    -- If the hold's ballot went down, a late withdrawal of an earlier ask would end the hold.
    local is_free, with = it.holder ~= owner, it.holder == owner and max(it.ballot, ballot) or ballot
    if is_reader then more().read(it, owner, ttl, ballot) else hold(it, owner, kind, with, count, ttl) end
    if is_free then reply = {'healed'} end
    if is_free and it.queue then more().leave(it) end
    if number ~= '-1' and kind ~= '0' and not is_reader then pcall(describe, it, number + 0, age, says) end
  end
  return reply
end)
