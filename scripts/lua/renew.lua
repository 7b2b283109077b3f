-- Holds names for another ttl: all of them or none.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names, owner
--         mode    'lock' or 'reader'
--         kind    what the hold is: see P{name}
--         ttl
--         token   by which the names were won
--         ballot  of the hold from now on, at least: the token, or that of the set that the names are of
--         count   hold count
--         note    number of the note, or -1: it has none. A lower one does not replace a higher one
--         age     how long ago the names were acquired
--         says    what the holder says of itself
-- Returns nothing if all names were held; healed: some had been free; lost, HOLDER: who holds one
--         or '' if locks with this token are over

-- With this ballot at least: a late withdrawal of an earlier ask must not end it.
local function extend(it, count)
  it.ends, it.ttl = now + ttl, ttl
  local is_higher, with = ballot > it.fence, digits(max(it.ballot, ballot))
  it.fence = max(it.fence, ballot)
  keep(it, 'until', digits(it.ends), 'ttl', digits(ttl), 'ballot', with, 'kind', kind, 'count', count)
  if is_higher then raise_high(ballot) end
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

return each(11, 5, function(at, key)
  local mode, token, count, reply, number, age, says
  first, names, owner, mode, kind, ttl, token, ballot, count, number, age, says = key, unpack(ARGV, at, at + 10)
  names, ttl, token, ballot, is_reader = names + 0, ttl + 0, token + 0, ballot + 0, mode == 'reader'
  local seen = look_all()
  local has_note = number ~= '-1' and kind ~= '0' and not is_reader
  for _, it in ipairs(seen) do
    if token <= it.over then return {'lost', ''} end
    if it.holder and it.holder ~= owner then return {'lost', it.holder} end
  end
  for _, it in ipairs(seen) do
    if it.holder ~= owner then reply = {'healed'} end
    renew(it, count)
    if has_note then pcall(describe, it, number + 0, age, says) end
  end
  return reply
end)
