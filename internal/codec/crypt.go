package codec

import (
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
)

// The format of Temporal's samples.
const (
	metadataKeyID     = "encryption-key-id"
	encodingEncrypted = "binary/encrypted"
)

// Keyring is a codec of the SDK.
var _ converter.PayloadCodec = (*Keyring)(nil)

// Encode returns encrypted payloads, including their metadata. It does not change its argument.
func (k *Keyring) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if p == nil {
			continue
		}
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt payload: %w", err)
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingEncrypted), metadataKeyID: []byte(k.current)},
			Data:     k.ciphers[k.current].Seal(nil, nil, plain, nil), //nolint:gosec // the cipher generates the nonce
		}
	}
	return out, nil
}

// Decode decrypts encrypted payloads. It returns others unchanged, because a history may have begun before there were keys. The error is
// [agent.CodeUnavailable] if the key is missing, because another process may have it, and [agent.CodeInvalid] for a payload that the key did not
// encrypt.
func (k *Keyring) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if out[i] = p; !isEncrypted(p) {
			continue
		}
		plain, err := k.decrypt(p)
		if err != nil {
			return nil, &decryptError{index: i, err: err}
		}
		out[i] = plain
	}
	return out, nil
}

func isEncrypted(p *commonpb.Payload) bool {
	return string(p.GetMetadata()[converter.MetadataEncoding]) == encodingEncrypted
}

func (k *Keyring) decrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[metadataKeyID])
	aead := k.ciphers[id]
	if aead == nil {
		return nil, agent.Errorf(agent.CodeUnavailable, opDecrypt, "the encryption key %.100q is not configured here", id)
	}
	plain, err := aead.Open(nil, nil, p.GetData(), nil)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, opDecrypt, "the key %q did not encrypt this payload: the payload or the key was changed", id)
	}
	content := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, content); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, opDecrypt, "the content that the key %q encrypted is not a payload", id) // the parser's error may quote it
	}
	return content, nil
}

const opDecrypt = "decrypt payload"

// decryptError is the error of a payload that could not be decrypted.
type decryptError struct {
	index int
	err   error
}

func (u *decryptError) Error() string { return u.err.Error() }
func (u *decryptError) Unwrap() error { return u.err }
