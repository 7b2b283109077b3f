-- Gives names up.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names, owner, mode, ballot
--         next    the ballot of whom it hands the names over to; 0: to nobody
--         wait    ms to stay in the queue for; 0: leaves the queue; -1: keeps what place there is
--         ticket  place in the queue
--         grace   ms that a turn lasts which this release gives
-- Returns nothing if it had one name, which the owner held; else released, HOW MANY it held

group = 5

-- First, for all names: nothing that fails later keeps them from others.
local function free(it)
  it.mine = it.holder == owner
  it.holder = not it.mine and it.holder or nil
  if is_reader then return readers().dismiss(it) end
  if it.mine then
    it.ends = 0
    call('HDEL', it.lock, 'until')
  else
    more().put(it, 'released', owner)
    more().put(it, 'released_until', now + KEEP)
  end
  local is_higher = ballot > it.fence
  if is_higher then more().put(it, 'fence', ballot) end
  if it.changed then keep(it) end
  if is_higher then heard(ballot) end
end

-- Nothing rests on the note. Only owners whose round begins with a zero have one.
local function end_note(it)
  local key = KEYS[it.at + NOTE]
  if call('HGET', key, 'owner') ~= owner then return end
  call('DEL', key)
  if it.mine then call('PUBLISH', it.lock .. ':news', it.lock) end
end

-- What is given back for an earlier owner leaves its acquisition the turn, and what it is
-- registered as.
local function step_back(it)
  if it.turn == more().acquisition(owner) and wait >= 0 then more().end_turn(it) end
  if wait == 0 then return queue().leave(it) end
  if wait > 0 then queue().join(it) end
  queue().withdraw(it)
end

return each(8, 5, function(at, key)
  local mode, with
  first, names, owner, mode, ballot, with, wait, ticket, grace = key, unpack(ARGV, at, at + 7)
  names, ballot, wait, grace, is_reader = names + 0, ballot + 0, wait + 0, grace + 0, mode == 'reader'
  local seen, freed, has_note = look_all(), 0, find(owner, '%.0%d+$')
  for i = 1, names do
    free(seen[i])
    if seen[i].mine then freed = freed + 1 end
  end
  for i = 1, names do
    local it = seen[i]
    if it.queue or it.turn or wait > 0 then
      step_back(it)
      if queue().is_open(it) and not (it.mine and queue().hand_over(it, with + 0)) then queue().give(it) end
      if it.changed then keep(it) end
    end
    if has_note then pcall(end_note, it) end
  end
  if freed ~= 1 or names ~= 1 then return {'released', freed} end
end)
