package codec

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// dataConverter is the SDK's own with a codec, and one difference: within a workflow it panics over a payload that cannot be decrypted. The
// SDK makes of an error there whatever the place makes of one: a failed workflow for its arguments, a signal dropped for the signal's. Of a
// panic it always makes a failed workflow task, and the server gives that out again, perhaps to a worker that has the key.
//
// It waits for nothing, so that the deadlock detector has nothing to say.
type dataConverter struct {
	*converter.CodecDataConverter

	plain      converter.DataConverter
	keys       *Keyring
	inWorkflow bool
}

var (
	_ converter.ContextAware                          = (*dataConverter)(nil)
	_ converter.DataConverterWithSerializationContext = (*dataConverter)(nil)
)

func newDataConverter(plain converter.DataConverter, keys *Keyring, inWorkflow bool) *dataConverter {
	coded, _ := converter.NewCodecDataConverter(plain, keys).(*converter.CodecDataConverter)
	return &dataConverter{CodecDataConverter: coded, plain: plain, keys: keys, inWorkflow: inWorkflow}
}

// FromPayload implements [converter.DataConverter].
func (d *dataConverter) FromPayload(p *commonpb.Payload, into any) error {
	return d.checked(d.CodecDataConverter.FromPayload(p, into))
}

// FromPayloads implements [converter.DataConverter].
func (d *dataConverter) FromPayloads(p *commonpb.Payloads, into ...any) error {
	return d.checked(d.CodecDataConverter.FromPayloads(p, into...))
}

func (d *dataConverter) checked(err error) error {
	if _, unreadable := errors.AsType[*undecodable](err); d.inWorkflow && unreadable {
		panic(err) //nolint:forbidigo // the SDK's way to fail the workflow task and not the workflow
	}
	return err
}

// WithWorkflowContext implements [converter.ContextAware].
func (d *dataConverter) WithWorkflowContext(ctx converter.WorkflowContext) converter.DataConverter {
	plain := d.plain
	if aware, ok := plain.(converter.ContextAware); ok {
		plain = aware.WithWorkflowContext(ctx)
	}
	return newDataConverter(plain, d.keys, true)
}

// WithContext implements [converter.ContextAware].
func (d *dataConverter) WithContext(ctx context.Context) converter.DataConverter {
	plain := d.plain
	if aware, ok := plain.(converter.ContextAware); ok {
		plain = aware.WithContext(ctx)
	}
	return newDataConverter(plain, d.keys, false)
}

// WithSerializationContext implements [converter.DataConverterWithSerializationContext].
func (d *dataConverter) WithSerializationContext(ctx converter.SerializationContext) converter.DataConverter {
	return newDataConverter(converter.WithDataConverterSerializationContext(d.plain, ctx), d.keys, d.inWorkflow)
}
