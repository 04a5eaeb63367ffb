package blob

import (
	"context"
	"io"
	"regexp"
	"time"

	"gocloud.dev/blob"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	opPayload = "payload store"
	// payloadsPrefix separates payloads of Temporal's histories from the content of tenants. References to them are not counted.
	payloadsPrefix = "~payloads/"
)

// payloadKey matches the day on which a payload was stored, followed by a unique name.
var payloadKey = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9A-Za-z._-]{1,128}$`)

// Payloads stores large payloads of Temporal until [Payloads.Sweep] removes them. Keys begin with a day (UTC), 2026-08-03/….
type Payloads struct {
	bucket *blob.Bucket
}

// Payloads returns the part of the store for payloads.
func (s *Store) Payloads() *Payloads { return &Payloads{bucket: s.bucket} }

// Put stores content. A key always has the same content.
func (p *Payloads) Put(ctx context.Context, key string, content []byte) error {
	if !payloadKey.MatchString(key) {
		return agent.Invalid("key", "want a day and a name, got %.200q", key)
	}
	options := blob.WriterOptions{ContentType: "application/octet-stream", DisableContentTypeDetection: true}
	if err := p.bucket.WriteAll(ctx, payloadsPrefix+key, content, &options); err != nil {
		return bucketError(ctx, opPayload, err)
	}
	return nil
}

// Get returns content. The error is [agent.CodeOverflow] for more than maxBytes, and [agent.CodeNotFound] if there is none.
func (p *Payloads) Get(ctx context.Context, key string, maxBytes int64) ([]byte, error) {
	if !payloadKey.MatchString(key) {
		return nil, agent.Invalid("key", "want a day and a name, got %.200q", key)
	}
	r, err := p.bucket.NewReader(ctx, payloadsPrefix+key, nil)
	if err != nil {
		return nil, bucketError(ctx, opPayload, err)
	}
	defer r.Close() //nolint:errcheck // read-only
	if r.Size() > maxBytes {
		return nil, agent.Errorf(agent.CodeOverflow, opPayload, "%s has %d bytes, more than %d", key, r.Size(), maxBytes)
	}
	content, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	switch {
	case err != nil:
		return nil, bucketError(ctx, opPayload, err)
	case int64(len(content)) > maxBytes:
		return nil, agent.Errorf(agent.CodeOverflow, opPayload, "%s has more than %d bytes", key, maxBytes)
	}
	return content, nil
}

// Sweep removes the payloads that were stored before the day of a time, and returns how many. Histories that refer to them can no longer be read.
func (p *Payloads) Sweep(ctx context.Context, before time.Time) (n int, err error) {
	day := before.UTC().Format(time.DateOnly)
	n, err = deleteObjects(ctx, p.bucket, payloadsPrefix, func(object *blob.ListObject) (isOld, isLast bool) {
		key := object.Key[len(payloadsPrefix):]
		if !payloadKey.MatchString(key) {
			return false, false
		}
		isOld = key[:len(day)] < day
		return isOld, !isOld // lists are sorted by key
	})
	if err != nil {
		return n, bucketError(ctx, "sweep payloads", err)
	}
	return n, nil
}
