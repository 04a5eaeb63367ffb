package postgres

import (
	"time"

	"go.uber.org/zap"
)

// Config configures [Open] and [NewStore]. Zero values stand for the defaults named at each field.
type Config struct {
	URL            string        // DSN or URL of the database; Open only
	MaxConns       int32         // most connections of the pool; 10
	ConnectTimeout time.Duration // how long Open waits for the server; 30 s
	Logger         *zap.Logger   // nil discards

	QueueLimit     int  // most turns waiting in one session whose record names no limit; 256
	PromptMessages int  // most messages of a prompt; 2,000
	PromptBytes    int  // most bytes of a prompt's blocks as JSON; 8 MiB
	SeparateLog    bool // the event log is not in this database: Finish leaves its events to the caller

	// BlobGrace is for how long content stays that was put, or that the cache let go of, while nobody refers to it; 1 h. It must be longer
	// than any tool works between storing content and answering with its reference.
	BlobGrace time.Duration

	CatalogPoll time.Duration // how late a missed notification of the catalog is noticed, ± 20 %; 5 s
}

const (
	defaultQueueLimit     = 256
	defaultPromptMessages = 2000
	defaultPromptBytes    = 8 << 20
	defaultCatalogPoll    = 5 * time.Second
	defaultBlobGrace      = time.Hour
)

func (c Config) withDefaults() Config {
	if c.MaxConns <= 0 {
		c.MaxConns = defaultMaxConns
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.QueueLimit <= 0 {
		c.QueueLimit = defaultQueueLimit
	}
	if c.PromptMessages <= 0 {
		c.PromptMessages = defaultPromptMessages
	}
	if c.PromptBytes <= 0 {
		c.PromptBytes = defaultPromptBytes
	}
	if c.BlobGrace <= 0 {
		c.BlobGrace = defaultBlobGrace
	}
	if c.CatalogPoll <= 0 {
		c.CatalogPoll = defaultCatalogPoll
	}
	return c
}
