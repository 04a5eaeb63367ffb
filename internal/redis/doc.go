// Package redis is a client of one Redis server: a bounded pool of connections, with the timeouts of the caller's context.
package redis
