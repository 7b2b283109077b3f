-- Returns the state of names, and writes nothing.
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names
-- Returns inspected, then for each name HOLDER or '', COUNT (of guards or readers), MS LEFT (until
--         the last hold ends; -2: free), BAR (`read_fence` counts too), LENGTH (of the queue), NOTE
--         or '', KIND, BALLOT, OVER. If readers hold the name, HOLDER is one of them, if possible
--         one that is not revoked, and BALLOT is this reader's
inspects = true

-- The holder's note as '{ms since the name was acquired} {token} {number} {text}', or ''.
local function note_of(it)
  local key = KEYS[it.at + NOTE]
  local whose, since, token, number, says = unpack(try('HMGET', key, 'owner', 'since', 'token', 'number', 'says'))
  if not whose or whose ~= it.holder then return '' end
  return format('%d %s %s ', max(0, now - since), token, number) .. says
end

return each(1, 5, function(at, key)
  first, names = key, ARGV[at] + 0
  local reply = {'inspected'}
  for _, it in ipairs(look_all()) do
    local holder, count, left, what, with = it.holder, 0, -2, 0, 0
    if it.reader then
      holder, count = more().last_reader(it, it.over)
      holder, left = holder or it.reader, it.read_ends - now
      with = it.reading[holder].ballot
    elseif holder then
      count, left, what, with = it.count + 0, it.ends - now, it.kind, it.ballot
    end
    local fence, waiting = max(it.fence, it.read_fence, floor), call('ZCARD', KEYS[it.at + QUEUE])
    local note = it.holder and note_of(it) or ''
    for _, part in ipairs({holder or '', count, left, fence, waiting, note, what, with, it.over}) do
      reply[#reply + 1] = part
    end
  end
  return reply
end)
