package jobs

// The scripts. Each is one atomic step. Redis takes nothing back when a later command of a script fails. So those that remove an entry first check
// the type of every key, and write nothing before. An attempt whose key holds no string has no mark, and its key is overwritten.
const (
	// Functions of the scripts: mark returns the mark of an attempt or nothing; ended reports whether a mark is that of an attempt that has ended;
	// room reports whether a key holds a list or is free.
	luaMark = `
local function mark(key)
  if redis.call('TYPE', key).ok ~= 'string' then return '' end
  return redis.call('GET', key) or ''
end
local function ended(current) return current == 'completed' or current == 'failed' end
local function room(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == 'list'
end`

	// luaPush adds a message to the queue and returns nothing. If its attempt has ended already, it returns the mark of that instead.
	// KEYS: queue, attempt. ARGV: message.
	luaPush = luaMark + `
local current = mark(KEYS[2])
if ended(current) then return current end
redis.call('RPUSH', KEYS[1], ARGV[1])
return ''`

	// luaBeat renews a bridge's lease.
	// KEYS: alive, bridges. ARGV: bridge, lease in ms.
	luaBeat = `
redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], redis.call('TIME')[1], ARGV[1])
return 1`

	// luaDead lists the bridges without a lease that hold jobs, and forgets old ones that hold none.
	// KEYS: bridges. ARGV: prefixes of alive and processing, seconds after which a bridge is old.
	luaDead = `
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

	// luaGiveBack moves jobs from a processing list to the head of the queue, the last first, so that they keep their order. It returns how many,
	// or -1 for another bridge that lives. ARGV 2 is 1 for the calling bridge itself, which is forgotten after its last job.
	// KEYS: queue, processing, alive, bridges. ARGV: bridge, is it the caller, limit.
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

	// luaBegin marks an attempt as running, unless it has ended, and returns its mark and those of the attempts before it, the latest first. If it
	// has ended and its result was not taken yet, the message is dropped, and luaBegin returns nothing at all.
	// KEYS: processing, attempt, results, earlier attempts. ARGV: message, ms to keep the mark.
	luaBegin = luaMark + `
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

	// luaPublish ends an attempt. It returns published; gone, when the entry is not the bridge's any more; duplicate, when the attempt was
	// answered already; occupied, when the key of the results holds no list. ARGV 6 is 1 for an attempt that had ended when the message was
	// begun: its result is published again unless one is there.
	// KEYS: processing, attempt, results. ARGV: message, status, ms to keep the mark, result, ms to keep it or 0, had it ended.
	luaPublish = luaMark + `
if not room(KEYS[3]) then return 'occupied' end
local current = mark(KEYS[2])
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
if ended(current) and (ARGV[6] == '0' or redis.call('EXISTS', KEYS[3]) == 1) then return 'duplicate' end
redis.call('RPUSH', KEYS[3], ARGV[4])
if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 'published'`

	// luaBury moves a message to the dead letters, and sends a result, if any, to its producer. It returns buried; gone, when the entry is not the
	// bridge's any more; occupied, when the key of the dead letters holds no list: then the entry stays, and the result is sent.
	// KEYS: processing, dead, results. ARGV: message, dead letter, letters to keep, result or nothing, ms to keep it or 0.
	luaBury = luaMark + `
local outcome, tell = 'occupied', ARGV[4] ~= '' and room(KEYS[3])
if room(KEYS[2]) then
  if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 'gone' end
  redis.call('LPUSH', KEYS[2], ARGV[2])
  redis.call('LTRIM', KEYS[2], 0, ARGV[3] - 1)
  outcome = 'buried'
elseif not redis.call('LPOS', KEYS[1], ARGV[1]) then
  return 'gone'
end
if tell then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  if tonumber(ARGV[5]) > 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5]) end
end
return outcome`
)
