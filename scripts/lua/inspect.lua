-- Tells everything about names, and writes nothing.
--
-- KEYS    P..node; for each name P{name}, :readers, :waiting, :queue, :note
-- ARGV    names
-- Returns inspected, then for each name HOLDER or '', COUNT, MS LEFT (-2: free), FENCE, LENGTH of
--         the queue, NOTE or '', KIND, BALLOT, OVER. If readers hold it:
--         one of them, not a revoked one if there is another; how many; until the last ends.

writes = false

-- '{ms since it acquired the name} {token} {number} {what it says}'
local function note_of(it)
  local key = KEYS[it.at + NOTE]
  local whose, since, token, number, says = unpack(try('HMGET', key, 'owner', 'since', 'token', 'number', 'says'))
  if not whose or whose ~= it.holder then return '' end
  return format('%d %s %s ', max(0, now - since), token, number) .. says
end

local function tell(reply, it)
  local holder, count, lasts, kind, with = it.holder, 0, -2, 0, 0
  if it.reader then
    local last, many = more().last_reader(it, it.over)
    holder, count, lasts = last or it.reader, many, it.read_ends - now
    with = it.reading[holder].ballot
  elseif holder then
    count, lasts, kind, with = tonumber(it.count), it.ends - now, it.kind, it.ballot
  end
  local told = {holder or '', count, lasts, it.bar, call('ZCARD', KEYS[it.at + QUEUE])}
  told[6], told[7], told[8], told[9] = it.holder and note_of(it) or '', kind, with, it.over
  for _, part in ipairs(told) do reply[#reply + 1] = part end
end

return each(1, 5, function(at, key)
  first, names = key, ARGV[at] + 0
  local reply = {'inspected'}
  for _, it in ipairs(look_all()) do tell(reply, it) end
  return reply
end)
