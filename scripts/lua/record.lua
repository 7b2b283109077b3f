-- Teaches the node what other nodes know, and tells its record.
--
-- KEYS    P..node
-- ARGV    names  0
--         verb   'teach' or 'record'
--         ballot of teach: the highest ballot that other nodes know
--         whole  of teach: 1 if those nodes know all that this one may have forgotten, else 0
-- Returns record: {'record', high, floor, the RUN in which it was taught or ''}

return each(4, 0, function(at)
  read_record()
  if ARGV[at + 1] == 'record' then return {'record', high, floor, call('HGET', KEYS[1], 'taught') or ''} end
  local told, mid = min(tonumber(ARGV[at + 2]), micros + FAR), tonumber(call('HGET', KEYS[1], 'mid') or 0)
  local to, below = max(high, told), max(floor, told)
  call('HSET', KEYS[1], 'high', digits(to), 'mid', digits(max(mid, told)), 'floor', digits(below))
  if ARGV[at + 3] == '1' then call('HSET', KEYS[1], 'taught', RUN) end
  high, floor = to, below
end)
