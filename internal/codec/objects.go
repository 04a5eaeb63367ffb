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

// Objects keeps large payloads, in a place of their own. Keys begin with the day (UTC) on which the payload was stored, 2026-08-03/…, and by it
// objects are removed: nothing counts who refers to one, so that they are to be kept for longer than the longest run and the namespace's
// retention together.
type Objects interface {
	// Put stores content. It may be there already, and is the same then.
	Put(ctx context.Context, key string, content []byte) error
	// Get returns it, of at most so many bytes: [agent.CodeOverflow] above, [agent.CodeNotFound] when there is none.
	Get(ctx context.Context, key string, most int64) ([]byte, error)
}

const (
	driverName = "turnstone" // stands in histories: never change it
	driverType = "turnstone.objects"

	claimKey    = "key"
	claimSHA256 = "sha256"

	defaultThreshold = 256 << 10
	defaultMaxBytes  = 32 << 20
	// objectTimeout bounds one call of the store: the SDK bounds none.
	objectTimeout = 30 * time.Second
	// envelopeBytes is what a stored payload has around its data at most.
	envelopeBytes = 64 << 10
)

var keyPattern = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9a-f]{64}$`)

// driver is a storage driver of the SDK. Its keys are <day>/<sha-256>: by its day an object is removed, by its hash it is verified.
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

// SelectDriver implements [converter.StorageDriverSelector]: what is too large even for the store stays where it is, and the SDK refuses it as
// it refuses every payload that is too large.
func (d *driver) SelectDriver(_ converter.StorageDriverSelectContext, p *commonpb.Payload) (converter.StorageDriver, error) {
	if int64(proto.Size(p)) > d.maxBytes {
		return nil, nil //nolint:nilnil // the SDK's word for "leave it"
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
	hash := sumOf(content)
	// The day is in the key, so that content which is stored again is not removed with what was stored long ago.
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

// retrieve fetches what a claim names, of at most so many bytes. Claims are content of histories, which others may write: one leads to
// nothing but a payload, with the hash that it names.
func (d *driver) retrieve(ctx context.Context, claim map[string]string, most int64) (*commonpb.Payload, error) {
	key, hash := claim[claimKey], claim[claimSHA256]
	if !keyPattern.MatchString(key) || key[len(time.DateOnly)+1:] != hash {
		return nil, agent.Errorf(agent.CodeInvalid, opRetrieve, "the reference names no payload: %.200q", key)
	}
	ctx, cancel := context.WithTimeout(ctx, objectTimeout)
	defer cancel()
	content, err := d.objects.Get(ctx, key, most+envelopeBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opRetrieve, err)
	}
	if sumOf(content) != hash {
		return nil, agent.Errorf(agent.CodeInternal, opRetrieve, "%s is corrupted: its content has another hash", key)
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(content, p); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, opRetrieve, "%s is no payload", key)
	}
	return p, nil
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
