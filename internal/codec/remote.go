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

// Limits of a request to a remote codec.
const (
	maxPayloads   = 1000
	maxReferences = 100
	maxFetched    = 64 << 20 // bytes of all payloads to which the references refer
)

// Metadata of the reference by which [converter.ExternalStorage] replaces a payload.
const (
	encodingReference = "json/protobuf"
	messageReference  = "temporal.api.sdk.v1.ExternalStorageReference"
)

// EncodeJSON encrypts payloads. As in DecodeJSON and DownloadJSON, the body and the result are temporal.api.common.v1.Payloads in JSON, and errors name
// the payload, such as payloads[3], without its content. EncodeJSON stores no payloads, because the SDK does.
func (c *Codec) EncodeJSON(_ context.Context, body []byte) ([]byte, error) {
	payloads, err := decodePayloads(body)
	if err != nil {
		return nil, err
	}
	for i, p := range payloads {
		if c.keys == nil || isReference(p) {
			continue
		}
		encrypted, err := c.keys.Encode([]*commonpb.Payload{p})
		if err != nil {
			return nil, payloadError(i, err)
		}
		payloads[i] = encrypted[0]
	}
	return encodePayloads(payloads)
}

// DecodeJSON decrypts payloads, and replaces references by the stored payloads unless keepReferences is set.
func (c *Codec) DecodeJSON(ctx context.Context, body []byte, keepReferences bool) ([]byte, error) {
	payloads, err := decodePayloads(body)
	if err != nil {
		return nil, err
	}
	if !keepReferences {
		if err := c.fetch(ctx, payloads); err != nil {
			return nil, err
		}
	}
	return c.decryptJSON(payloads)
}

// DownloadJSON returns the stored payloads of references. All payloads of the body must be references.
func (c *Codec) DownloadJSON(ctx context.Context, body []byte) ([]byte, error) {
	payloads, err := decodePayloads(body)
	if err != nil {
		return nil, err
	}
	for i, p := range payloads {
		if !isReference(p) {
			return nil, agent.Invalid(field(i), "is not a reference to a stored payload")
		}
	}
	if err := c.fetch(ctx, payloads); err != nil {
		return nil, err
	}
	return c.decryptJSON(payloads)
}

// Stores reports whether payloads may be stored outside of histories, and downloaded.
func (c *Codec) Stores() bool { return c.driver != nil }

// decryptJSON returns decrypted payloads as JSON.
func (c *Codec) decryptJSON(payloads []*commonpb.Payload) ([]byte, error) {
	for i, p := range payloads {
		switch {
		case !isEncrypted(p):
		case c.keys == nil:
			return nil, agent.Invalid(field(i), "is encrypted, and no keys are configured here")
		default:
			plain, err := c.keys.decrypt(p)
			if err != nil { // invalid even if the key is missing, because a retry does not help
				return nil, agent.Invalid(field(i), "%w", err)
			}
			payloads[i] = plain
		}
	}
	return encodePayloads(payloads)
}

// fetch replaces references by the stored payloads.
func (c *Codec) fetch(ctx context.Context, payloads []*commonpb.Payload) error {
	references, remaining := 0, int64(maxFetched)
	for i, p := range payloads {
		if !isReference(p) {
			continue
		}
		if references++; references > maxReferences {
			return agent.FieldErrorf(agent.CodeOverflow, field(i), "at most %d references in one request", maxReferences)
		}
		fetched, err := c.fetchOne(ctx, p, remaining)
		if err != nil {
			return payloadError(i, err)
		}
		if remaining -= int64(len(fetched.GetData())); remaining < 0 {
			return agent.FieldErrorf(agent.CodeOverflow, field(i), "the referenced payloads have more than %d bytes together", maxFetched)
		}
		payloads[i] = fetched
	}
	return nil
}

// fetchOne returns the stored payload of a reference, if it has at most maxBytes.
func (c *Codec) fetchOne(ctx context.Context, p *commonpb.Payload, maxBytes int64) (*commonpb.Payload, error) {
	if c.driver == nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is a reference, and no storage of payloads is configured here")
	}
	var ref sdkpb.ExternalStorageReference
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(p.GetData(), &ref); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is not a valid reference")
	}
	if ref.GetDriverName() != driverName {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is a reference of the driver %.100q, want %q", ref.GetDriverName(), driverName)
	}
	fetched, err := c.driver.retrieve(ctx, ref.GetClaimData(), min(c.driver.maxBytes, maxBytes))
	if agent.CodeOf(err) == agent.CodeNotFound { // status 404 would mean that the path of the request does not exist
		return nil, agent.Errorf(agent.CodeInvalid, "", "was removed after its retention time")
	}
	return fetched, err
}

func isReference(p *commonpb.Payload) bool {
	m := p.GetMetadata()
	return string(m[converter.MetadataEncoding]) == encodingReference && string(m[converter.MetadataMessageType]) == messageReference
}

func decodePayloads(body []byte) ([]*commonpb.Payload, error) {
	var payloads commonpb.Payloads
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &payloads); err != nil {
		return nil, agent.Invalid("payloads", "want temporal.api.common.v1.Payloads in JSON") // the parser's error may quote content
	}
	if n := len(payloads.GetPayloads()); n > maxPayloads {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "payloads", "at most %d in one request, got %d", maxPayloads, n)
	}
	return payloads.GetPayloads(), nil
}

func encodePayloads(payloads []*commonpb.Payload) ([]byte, error) {
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	if err != nil {
		return nil, fmt.Errorf("encode payloads: %w", err)
	}
	return body, nil
}

func field(i int) string { return fmt.Sprintf("payloads[%d]", i) }

// payloadError returns an error with the payload as its field.
func payloadError(i int, err error) error {
	return &agent.Error{Code: agent.CodeOf(err), Field: field(i), Err: err}
}
