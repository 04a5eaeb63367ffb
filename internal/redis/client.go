package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ErrNil is the error of a conversion when Redis has answered with nothing.
var ErrNil = redis.ErrNil

// Client runs commands. It may be used by several goroutines, and connects when it is first used. It does not retry commands: one whose answer
// was lost may have been run, and the caller must know.
type Client struct {
	pool    *redis.Pool
	options Options
}

// New returns a client. Close it.
func New(o Options) *Client {
	o.defaults()
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

// Do runs a command. The deadline of ctx bounds it. Cancelled, it still waits for the answer, because otherwise the outcome would be unknown.
func (c *Client) Do(ctx context.Context, command string, args ...any) (any, error) {
	return c.Wait(ctx, 0, command, args...)
}

// Wait runs a command that takes up to a time more than others, because the server waits for something.
func (c *Client) Wait(ctx context.Context, more time.Duration, command string, args ...any) (any, error) {
	getting, cancel := context.WithTimeout(ctx, c.options.ConnectTimeout)
	defer cancel()
	conn, err := c.pool.GetContext(getting)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	timeout := c.options.ReadTimeout + more
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return redis.DoWithTimeout(conn, max(timeout, time.Nanosecond), command, args...)
}

// Run runs a script, by its hash if Redis has it.
func (c *Client) Run(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	words := []any{redis.NewScript(len(keys), script).Hash(), len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	reply, err := c.Do(ctx, "EVALSHA", words...)
	if HasErrorPrefix(err, "NOSCRIPT") {
		words[0] = script
		return c.Do(ctx, "EVAL", words...)
	}
	return reply, err
}

// Close ends the connections, those in use after their command.
func (c *Client) Close() error { return c.pool.Close() }

// HasErrorPrefix reports whether Redis has refused a command with an error of a kind, such as WRONGTYPE.
func HasErrorPrefix(err error, kind string) bool {
	refusal, ok := errors.AsType[redis.Error](err)
	return ok && strings.HasPrefix(string(refusal), kind+" ")
}

// String returns a reply as text. Nothing is [ErrNil].
func String(reply any, err error) (string, error) { return redis.String(reply, err) }

// Bytes returns a reply as bytes. Nothing is [ErrNil].
func Bytes(reply any, err error) ([]byte, error) { return redis.Bytes(reply, err) }

// Strings returns a list. Nothing is [ErrNil].
func Strings(reply any, err error) ([]string, error) { return redis.Strings(reply, err) }

// Int returns a number. Nothing is [ErrNil].
func Int(reply any, err error) (int, error) { return redis.Int(reply, err) }
