-- Releases or withdraws names: see docs/protocol.md.
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names, owner, mode ('lock' or 'reader'), verb ('release' or 'withdraw'), token (0 for a
--         withdrawal), ballot, next, place ('ARRIVAL H AGAIN KIND' of the place that the owner takes
--         again if a withdrawal ends its hold; '': none)
-- Returns nothing if the operation has one name and ended the owner's hold on it; else released,
--         and the number of names on which it ended the owner's hold
local has_ended, token

local function give_up(it)
  local raises = ballot > max(it.fence, it.read_fence)
  if is_reader then
    local reader = it.reading[owner]
    it.mine = reader and (has_ended or reader.ballot <= ballot)
    if it.mine then
      call('HDEL', KEYS[it.at + READERS], owner)
      it.reading[owner] = nil
    end
    it.read_fence = max(it.read_fence, ballot)
    more().settle(it)
    return keep(it)
  end
  local ends_it = has_ended or it.ballot <= ballot
  it.mine = it.holder == owner and ends_it
  if it.owner == owner and ends_it then
    it.was = it.kind
    free(it)
  end
  it.fence, it.over = max(it.fence, ballot), max(it.over, token)
  if not it.mine or raises then return keep(it, 'over', digits(it.over)) end
  -- The fence has not risen, so the key need not expire later. Only `over` remains to be stored.
  if has_ended then call('HSET', it.lock, 'over', digits(it.over)) end
end

-- Removes the owner's note. The release is valid even if the note cannot be removed.
local function end_note(it)
  local key = KEYS[it.at + NOTE]
  if call('HGET', key, 'owner') ~= owner then return end
  call('DEL', key)
  if it.mine then call('PUBLISH', it.lock .. ':news', it.lock) end
end

return each(8, 5, function(at, key)
  local mode, verb, place
  first, names, owner, mode, verb, token, ballot, next_ballot, place = key, unpack(ARGV, at, at + 7)
  names, token, ballot, next_ballot = names + 0, token + 0, ballot + 0, next_ballot + 0
  is_reader, has_ended = mode == 'reader', verb == 'release'
  rotate()
  local seen, freed = look_all(), 0
  -- End all holds before the first hand-over: if a hand-over fails, no hold is left.
  for _, it in ipairs(seen) do
    give_up(it)
    if it.mine then freed = freed + 1 end
  end
  for _, it in ipairs(seen) do
    if it.mine and place ~= '' then
      arrival, lasts, again, kind = match(place, '^(%d+) (%d+) (%d+) (%d+)$')
      more().join(it)
    end
    local left = has_ended and it.queue and more().leave(it)
    if it.queue and (it.mine or left) then more().hand_over(it, next_ballot) end
    if has_ended and it.was and it.was > 0 then pcall(end_note, it) end
  end
  if freed ~= 1 or names ~= 1 then return {'released', freed} end
end)
