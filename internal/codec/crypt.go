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

// Encode encrypts payloads, metadata and all. Those given are not changed.
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
			Data:     k.ciphers[k.current].Seal(nil, nil, plain, nil), //nolint:gosec // no nonce is passed because the cipher makes one of its own
		}
	}
	return out, nil
}

// Decode decrypts what is encrypted and passes on the rest: a history may have been begun before there were keys. [agent.CodeUnavailable]
// for a key that is not known here, which another process may have; [agent.CodeInvalid] for what the key did not encrypt.
func (k *Keyring) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if out[i] = p; !isEncrypted(p) {
			continue
		}
		plain, err := k.decrypt(p)
		if err != nil {
			return nil, &undecodable{index: i, err: err}
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
		return nil, agent.Errorf(agent.CodeInvalid, opDecrypt, "not what the key %q encrypted: it was changed, or the key is another one", id)
	}
	content := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, content); err != nil {
		return nil, agent.Errorf(agent.CodeInvalid, opDecrypt, "the key %q encrypted no payload", id) // the parser's error may quote it
	}
	return content, nil
}

const opDecrypt = "decrypt payload"

// undecodable is why a payload could not be read, as opposed to why its content is not what was wanted.
type undecodable struct {
	index int
	err   error
}

func (u *undecodable) Error() string { return u.err.Error() }
func (u *undecodable) Unwrap() error { return u.err }
