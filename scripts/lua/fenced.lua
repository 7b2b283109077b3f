local token, seen = ARGV[1], redis.call('GET', KEYS[1])
if seen and not string.match(seen, '^%d+$') then
  return redis.error_reply('ERR the key of the fence holds something else than a fencing token')
end
-- Compare as texts: Lua's numbers are exact below 2^53 only.
if seen and (#token < #seen or (#token == #seen and token < seen)) then
  return { seen, false }
end
-- SET comes before the command: the fence must rise even if the command fails.
if token ~= seen then
  redis.call('SET', KEYS[1], token)
end
return { token, redis.call(unpack(ARGV, 2)) }
