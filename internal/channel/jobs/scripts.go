package jobs

// The scripts. Each runs atomically, but Redis does not undo its writes when a later command of it fails. So a script that removes an entry first
// checks the types of all keys. An attempt whose key is not a string has no mark, and its key is overwritten.
const (
	// luaFunctions are shared by the scripts. mark returns the mark of an attempt, or ''. ended reports whether a mark says that the attempt has
	// ended. isList reports whether a value can be pushed to a key: it is a list or does not exist.
	luaFunctions = `
local function mark(key)
  if redis.call('TYPE', key).ok ~= 'string' then return '' end
  return redis.call('GET', key) or ''
end
local function ended(current) return current == 'completed' or current == 'failed' end
local function isList(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == 'list'
end`

	// luaPush adds a message to the queue and returns ''. If the attempt has ended, it adds nothing and returns the attempt's mark.
	// KEYS: queue, attempt. ARGV: message.
	luaPush = luaFunctions + `
local current = mark(KEYS[2])
if ended(current) then return current end
redis.call('RPUSH', KEYS[1], ARGV[1])
return ''`

	// luaRenew renews a bridge's lease.
	// KEYS: alive, bridges. ARGV: bridge, lease in ms.
	luaRenew = `
redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], redis.call('TIME')[1], ARGV[1])
return 1`

	// luaFindDead lists the bridges without a lease that hold jobs. It removes those that hold none from the list of bridges after a while.
	// KEYS: bridges. ARGV: prefixes of alive and processing, seconds after which a bridge is removed.
	luaFindDead = `
local found = {}
local old = redis.call('TIME')[1] - ARGV[3]
local list = redis.call('ZRANGE', KEYS[1], 0, 9999, 'WITHSCORES')
for i = 1, #list, 2 do
  if redis.call('EXISTS', ARGV[1] .. list[i]) == 0 then
    if redis.call('LLEN', ARGV[2] .. list[i]) > 0 then
      found[#found + 1] = list[i]
    elseif tonumber(list[i + 1]) < old then
      redis.call('ZREM', KEYS[1], list[i])
    end
  end
end
return found`

	// luaGiveBack moves jobs from a processing list to the head of the queue, the last one first, so that they keep their order. It returns how many,
	// or -1 if the bridge is not the caller and has a lease. If the caller gives back its own jobs, the last call also removes its lease.
	// KEYS: queue, processing, alive, bridges. ARGV: bridge, 1 if it is the caller, limit.
	luaGiveBack = `
local self = ARGV[2] == '1'
if not self and redis.call('EXISTS', KEYS[3]) == 1 then return -1 end
local n, limit = 0, tonumber(ARGV[3])
while n < limit and redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'LEFT') do n = n + 1 end
if self and n < limit then
  redis.call('DEL', KEYS[3])
  redis.call('ZREM', KEYS[4], ARGV[1])
end
return n`

	// luaBegin marks an attempt as running unless it has ended. It returns the attempt's mark and those of the earlier attempts, the latest first. If
	// the attempt has ended and its result still waits for the producer, luaBegin drops the message and returns an empty list.
	// KEYS: processing, attempt, results, earlier attempts. ARGV: message, ms to keep the mark.
	luaBegin = luaFunctions + `
local current = mark(KEYS[2])
if not ended(current) then
  current = 'running'
  redis.call('SET', KEYS[2], current, 'PX', ARGV[2])
elseif redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('LREM', KEYS[1], 1, ARGV[1])
  return {}
end
local marks = {current}
for i = 4, #KEYS do marks[i - 2] = mark(KEYS[i]) end
return marks`

	// luaPublish publishes the result of an attempt and marks the attempt as ended. It returns one of the outcomes of queue.go. The result of an
	// attempt that had ended when luaBegin ran is published again, unless a result waits for the producer.
	// KEYS: processing, attempt, results. ARGV: message, status, ms to keep the mark, result, ms to keep it or 0, 1 if the attempt had ended.
	luaPublish = luaFunctions + `
if not isList(KEYS[3]) then return 'occupied' end
local current = mark(KEYS[2])
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
if ended(current) and (ARGV[6] == '0' or redis.call('EXISTS', KEYS[3]) == 1) then return 'duplicate' end
redis.call('RPUSH', KEYS[3], ARGV[4])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'published'`

	// luaAddDeadLetter moves a message to the dead letters and sends the result, unless it is '', to the producer. It returns one of the outcomes of
	// queue.go. If the outcome is occupied, the message stays in the processing list although the result was sent.
	// KEYS: processing, dead, results. ARGV: message, dead letter, dead letters to keep, result or '', ms to keep it or 0.
	luaAddDeadLetter = luaFunctions + `
local outcome, hasResult = 'occupied', ARGV[4] ~= '' and isList(KEYS[3])
if isList(KEYS[2]) then
  if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
  redis.call('LPUSH', KEYS[2], ARGV[2])
  redis.call('LTRIM', KEYS[2], 0, ARGV[3] - 1)
  outcome = 'published'
elseif not redis.call('LPOS', KEYS[1], ARGV[1]) then
  return 'gone'
end
if hasResult then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
end
return outcome`
)
