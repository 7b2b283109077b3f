-- Gives names up: the owner has ended, or it goes on and takes back what it was granted with
-- ballots up to this one.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names, owner
--         mode    'lock' or 'reader'
--         verb    'release': it has ended; 'withdraw': it goes on
--         token   of a release: locks with tokens up to this one are over; or 0
--         ballot  the highest that the owner asked with or was handed
--         next    the ballot of whom it hands the names over to; 0: to nobody
-- Returns nothing if it had one name, which the owner held; else released, HOW MANY it held

local has_ended, token

-- First, for all names: nothing that fails later keeps them from others.
local function give_up(it)
  local is_higher = ballot > (it.read_fence and more().highest(it) or it.fence)
  if is_reader then
    readers().dismiss(it)
    keep(it)
  else
    it.mine = it.holder == owner and (has_ended or it.ballot <= ballot)
    if it.owner == owner and (has_ended or it.ballot <= ballot) then
      it.was = it.kind
      free(it)
    end
    it.fence, it.over = max(it.fence, ballot), max(it.over, token)
    if it.mine and not is_higher and not it.changed then
      -- The key outlasts the end of the hold, and so this.
      if has_ended then call('HSET', it.lock, 'over', digits(it.over)) end
    else
      keep(it, 'over', digits(it.over))
    end
  end
  if is_higher then raise_high(ballot) end
end

-- Nothing rests on the note.
local function end_note(it)
  local key = KEYS[it.at + NOTE]
  if call('HGET', key, 'owner') ~= owner then return end
  call('DEL', key)
  if it.mine then call('PUBLISH', it.lock .. ':news', it.lock) end
end

return each(7, 5, function(at, key)
  local mode, verb
  first, names, owner, mode, verb, token, ballot, next_ballot = key, unpack(ARGV, at, at + 6)
  names, token, ballot, next_ballot = names + 0, token + 0, ballot + 0, next_ballot + 0
  is_reader, has_ended = mode == 'reader', verb == 'release'
  local seen, freed = look_all(), 0
  for _, it in ipairs(seen) do
    give_up(it)
    if it.mine then freed = freed + 1 end
  end
  for _, it in ipairs(seen) do
    if it.queue then
      -- An owner that goes on keeps its place.
      local left = has_ended and queue().leave(it)
      if it.mine or left then queue().hand_over(it, next_ballot) end
      if it.changed then keep(it) end
    end
    if has_ended and it.was and it.was > 0 then pcall(end_note, it) end
  end
  if freed ~= 1 or names ~= 1 then return {'released', freed} end
end)
