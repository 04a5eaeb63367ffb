package codec

import (
	"context"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/turnstone-run/turnstone/agent"
)

// What a request of a remote codec may ask for.
const (
	maxPayloads   = 1000
	maxReferences = 100
	// maxFetched bounds what the references of one request lead to.
	maxFetched = 64 << 20
)

// The SDK's references: what [converter.ExternalStorage] leaves in the place of a payload.
const (
	encodingReference = "json/protobuf"
	messageReference  = "temporal.api.sdk.v1.ExternalStorageReference"
)

// EncodeJSON encrypts. As of DecodeJSON and DownloadJSON, body and answer are temporal.api.common.v1.Payloads in JSON, payload by payload, and
// errors name the payload, payloads[3], and hold nothing of its content. Nothing is stored: what is large enough for that comes from the SDK.
func (c *Codec) EncodeJSON(_ context.Context, body []byte) ([]byte, error) {
	payloads, err := payloadsOf(body)
	if err != nil {
		return nil, err
	}
	for i, p := range payloads {
		if c.keys == nil || isReference(p) {
			continue
		}
		sealed, err := c.keys.Encode([]*commonpb.Payload{p})
		if err != nil {
			return nil, at(i, err)
		}
		payloads[i] = sealed[0]
	}
	return jsonOf(payloads)
}

// DecodeJSON decrypts, and fetches what is stored elsewhere unless references are to be kept as they are.
func (c *Codec) DecodeJSON(ctx context.Context, body []byte, keepReferences bool) ([]byte, error) {
	payloads, err := payloadsOf(body)
	if err != nil {
		return nil, err
	}
	if !keepReferences {
		if err := c.fetch(ctx, payloads); err != nil {
			return nil, err
		}
	}
	return c.opened(payloads)
}

// DownloadJSON fetches what is stored elsewhere: all payloads must be references.
func (c *Codec) DownloadJSON(ctx context.Context, body []byte) ([]byte, error) {
	payloads, err := payloadsOf(body)
	if err != nil {
		return nil, err
	}
	for i, p := range payloads {
		if !isReference(p) {
			return nil, agent.Invalid(field(i), "is no reference to a stored payload")
		}
	}
	if err := c.fetch(ctx, payloads); err != nil {
		return nil, err
	}
	return c.opened(payloads)
}

// Stores reports whether payloads may be stored elsewhere, and downloaded.
func (c *Codec) Stores() bool { return c.driver != nil }

// opened decrypts and answers.
func (c *Codec) opened(payloads []*commonpb.Payload) ([]byte, error) {
	for i, p := range payloads {
		switch {
		case !isEncrypted(p):
		case c.keys == nil:
			return nil, agent.Invalid(field(i), "is encrypted, and no keys are configured here")
		default:
			plain, err := c.keys.decrypt(p)
			if err != nil { // whichever it is: asking again does not help
				return nil, agent.Invalid(field(i), "%w", err)
			}
			payloads[i] = plain
		}
	}
	return jsonOf(payloads)
}

// fetch replaces references by what they lead to.
func (c *Codec) fetch(ctx context.Context, payloads []*commonpb.Payload) error {
	references, left := 0, int64(maxFetched)
	for i, p := range payloads {
		if !isReference(p) {
			continue
		}
		if references++; references > maxReferences {
			return agent.FieldErrorf(agent.CodeOverflow, field(i), "at most %d references in one request", maxReferences)
		}
		fetched, err := c.fetchOne(ctx, p, left)
		if err != nil {
			return at(i, err)
		}
		if left -= int64(len(fetched.GetData())); left < 0 {
			return agent.FieldErrorf(agent.CodeOverflow, field(i), "the references lead to more than %d bytes in all", maxFetched)
		}
		payloads[i] = fetched
	}
	return nil
}

func (c *Codec) fetchOne(ctx context.Context, p *commonpb.Payload, left int64) (*commonpb.Payload, error) {
	if c.driver == nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is stored elsewhere, and no storage of payloads is configured here")
	}
	var ref sdkpb.ExternalStorageReference
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(p.GetData(), &ref); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is no reference that can be read")
	}
	if ref.GetDriverName() != driverName {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is stored by the driver %.100q, which is not ours", ref.GetDriverName())
	}
	fetched, err := c.driver.retrieve(ctx, ref.GetClaimData(), min(c.driver.maxBytes, left))
	if agent.CodeOf(err) == agent.CodeNotFound { // as 404 it would say that there is no such path
		return nil, agent.Errorf(agent.CodeInvalid, "", "has been removed: it was kept for as long as the settings say")
	}
	return fetched, err
}

func isReference(p *commonpb.Payload) bool {
	m := p.GetMetadata()
	return string(m[converter.MetadataEncoding]) == encodingReference && string(m[converter.MetadataMessageType]) == messageReference
}

func payloadsOf(body []byte) ([]*commonpb.Payload, error) {
	var payloads commonpb.Payloads
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &payloads); err != nil {
		return nil, agent.Invalid("payloads", "want temporal.api.common.v1.Payloads in JSON") // the parser's error may quote content
	}
	if n := len(payloads.GetPayloads()); n > maxPayloads {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "payloads", "at most %d in one request, got %d", maxPayloads, n)
	}
	return payloads.GetPayloads(), nil
}

func jsonOf(payloads []*commonpb.Payload) ([]byte, error) {
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	if err != nil {
		return nil, fmt.Errorf("encode payloads: %w", err)
	}
	return body, nil
}

func field(i int) string { return fmt.Sprintf("payloads[%d]", i) }

// at names the payload at fault.
func at(i int, err error) error {
	return &agent.Error{Code: agent.CodeOf(err), Field: field(i), Err: err}
}
