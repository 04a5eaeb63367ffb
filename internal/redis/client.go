package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ErrNil is the error of a conversion of Redis's nil reply.
var ErrNil = redis.ErrNil

// Client runs commands. It may be used by several goroutines, and connects when it is first used. It does not retry commands, because a command whose
// reply was lost may have been run.
type Client struct {
	pool    *redis.Pool
	options Options
}

// New returns a client. The caller must close it.
func New(o Options) *Client {
	o.setDefaults()
	dial := []redis.DialOption{
		redis.DialUsername(o.Username), redis.DialPassword(o.Password), redis.DialDatabase(o.DB), redis.DialUseTLS(o.TLS != nil),
		redis.DialTLSConfig(o.TLS), redis.DialTLSHandshakeTimeout(o.ConnectTimeout), redis.DialConnectTimeout(o.ConnectTimeout),
		redis.DialReadTimeout(o.ReadTimeout), redis.DialWriteTimeout(o.WriteTimeout),
	}
	if o.Dial != nil {
		dial = append(dial, redis.DialContextFunc(o.Dial))
	}
	return &Client{options: o, pool: &redis.Pool{
		MaxActive: o.PoolSize, MaxIdle: o.PoolSize, IdleTimeout: o.IdleTimeout, Wait: true,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, o.Network, o.Address, dial...)
		},
		TestOnBorrowContext: func(ctx context.Context, conn redis.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < o.TestAfter {
				return nil
			}
			_, err := redis.DoContext(conn, ctx, "PING")
			return err
		},
	}}
}

// Do runs a command, with the deadline of ctx. It waits for the reply even if ctx is cancelled, because otherwise the outcome would be unknown.
func (c *Client) Do(ctx context.Context, command string, args ...any) (any, error) {
	return c.Wait(ctx, 0, command, args...)
}

// Wait runs a command for which the server may wait up to serverWait before it replies.
func (c *Client) Wait(ctx context.Context, serverWait time.Duration, command string, args ...any) (any, error) {
	connecting, cancel := context.WithTimeout(ctx, c.options.ConnectTimeout)
	defer cancel()
	conn, err := c.pool.GetContext(connecting)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	timeout := c.options.ReadTimeout + serverWait
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return redis.DoWithTimeout(conn, max(timeout, time.Nanosecond), command, args...)
}

// Run runs a Lua script. It sends the script's text only if Redis does not know its hash.
func (c *Client) Run(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	scriptArgs := []any{redis.NewScript(len(keys), script).Hash(), len(keys)}
	for _, key := range keys {
		scriptArgs = append(scriptArgs, key)
	}
	scriptArgs = append(scriptArgs, args...)
	reply, err := c.Do(ctx, "EVALSHA", scriptArgs...)
	if HasErrorPrefix(err, "NOSCRIPT") {
		scriptArgs[0] = script
		return c.Do(ctx, "EVAL", scriptArgs...)
	}
	return reply, err
}

// Close closes the connections. A connection in use is closed after its command.
func (c *Client) Close() error { return c.pool.Close() }

// HasErrorPrefix reports whether err is an error of Redis with a prefix, such as WRONGTYPE.
func HasErrorPrefix(err error, kind string) bool {
	refusal, ok := errors.AsType[redis.Error](err)
	return ok && strings.HasPrefix(string(refusal), kind+" ")
}

// String returns a reply as text, or [ErrNil].
func String(reply any, err error) (string, error) { return redis.String(reply, err) }

// Bytes returns a reply as bytes, or [ErrNil].
func Bytes(reply any, err error) ([]byte, error) { return redis.Bytes(reply, err) }

// Strings returns a reply as a list of texts, or [ErrNil].
func Strings(reply any, err error) ([]string, error) { return redis.Strings(reply, err) }

// Int returns a reply as a number, or [ErrNil].
func Int(reply any, err error) (int, error) { return redis.Int(reply, err) }
