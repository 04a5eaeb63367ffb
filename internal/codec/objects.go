package codec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
)

// Objects stores large payloads. Keys begin with the day (UTC) on which the payload was stored, 2026-08-03/…, so that old objects can be removed by day.
// References to them are not counted, so they must be kept longer than the longest run plus the namespace's retention.
type Objects interface {
	// Put stores content. A key always has the same content.
	Put(ctx context.Context, key string, content []byte) error
	// Get returns content. The error is [agent.CodeOverflow] for more than maxBytes, and [agent.CodeNotFound] if there is none.
	Get(ctx context.Context, key string, maxBytes int64) ([]byte, error)
}

const (
	driverName = "turnstone" // histories contain it, so it must not change
	driverType = "turnstone.objects"

	claimKey    = "key"
	claimSHA256 = "sha256"

	defaultThreshold = 256 << 10
	defaultMaxBytes  = 32 << 20
	// objectTimeout is how long one call of the store may take. The SDK has no such timeout.
	objectTimeout = 30 * time.Second
	// envelopeBytes is the maximum size of a stored payload without its data.
	envelopeBytes = 64 << 10
)

var keyPattern = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9a-f]{64}$`)

// driver is a storage driver of the SDK. Its keys are <day>/<sha-256>. The day is for removal, and the hash for verification.
type driver struct {
	objects  Objects
	maxBytes int64
	now      func() time.Time
}

var (
	_ converter.StorageDriver         = (*driver)(nil)
	_ converter.StorageDriverSelector = (*driver)(nil)
)

// Name implements [converter.StorageDriver].
func (d *driver) Name() string { return driverName }

// Type implements [converter.StorageDriver].
func (d *driver) Type() string { return driverType }

// SelectDriver implements [converter.StorageDriverSelector]. It returns nil for a payload that is too large for the store, which the SDK then refuses.
func (d *driver) SelectDriver(_ converter.StorageDriverSelectContext, p *commonpb.Payload) (converter.StorageDriver, error) {
	if int64(proto.Size(p)) > d.maxBytes {
		return nil, nil //nolint:nilnil // means that the payload is not stored
	}
	return d, nil
}

// Store implements [converter.StorageDriver].
func (d *driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(payloads))
	limit := ctx.GetLimiter()
	tasks, live := errgroup.WithContext(ctx.Context)
	for i, p := range payloads {
		tasks.Go(func() error {
			return limit.Permit(live, p, func() (err error) {
				claims[i], err = d.store(live, p)
				return err
			})
		})
	}
	if err := tasks.Wait(); err != nil {
		return nil, err
	}
	return claims, nil
}

func (d *driver) store(ctx context.Context, p *commonpb.Payload) (converter.StorageDriverClaim, error) {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return converter.StorageDriverClaim{}, fmt.Errorf("store payload: %w", err)
	}
	hash := hexSum(content)
	// With the day in the key, content that is stored again on another day has a new object, which is kept longer.
	key := d.now().UTC().Format(time.DateOnly) + "/" + hash
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	if err := d.objects.Put(ctx, key, content); err != nil {
		return converter.StorageDriverClaim{}, fmt.Errorf("store payload: %w", err)
	}
	return converter.StorageDriverClaim{ClaimData: map[string]string{claimKey: key, claimSHA256: hash}}, nil
}

// Retrieve implements [converter.StorageDriver].
func (d *driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	limit := ctx.GetLimiter()
	tasks, live := errgroup.WithContext(ctx.Context)
	for i, c := range claims {
		tasks.Go(func() error {
			return limit.Permit(live, c, func() (err error) {
				payloads[i], err = d.retrieve(live, c.ClaimData, d.maxBytes)
				return err
			})
		})
	}
	if err := tasks.Wait(); err != nil {
		return nil, err
	}
	return payloads, nil
}

const opRetrieve = "retrieve payload"

// retrieve returns the payload of a claim, if it has at most maxBytes. As others may write claims into histories, it checks that the claim names a
// payload and has its hash.
func (d *driver) retrieve(ctx context.Context, claim map[string]string, maxBytes int64) (*commonpb.Payload, error) {
	key, hash := claim[claimKey], claim[claimSHA256]
	if !keyPattern.MatchString(key) || key[len(time.DateOnly)+1:] != hash {
		return nil, agent.Errorf(agent.CodeInvalid, opRetrieve, "the reference does not name a payload: %.200q", key)
	}
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	content, err := d.objects.Get(ctx, key, maxBytes+envelopeBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opRetrieve, err)
	}
	if hexSum(content) != hash {
		return nil, agent.Errorf(agent.CodeInternal, opRetrieve, "%s is corrupted: its content has another hash", key)
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(content, p); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, opRetrieve, "%s is not a payload", key)
	}
	return p, nil
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
