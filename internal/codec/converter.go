package codec

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// dataConverter is the SDK's converter with a codec. Within a workflow, it panics if a payload cannot be decrypted: after an error, the SDK would fail
// the workflow because of an argument, or drop a signal. After a panic, the SDK fails only the workflow task, and the server retries the task until a
// worker with the key takes it.
//
// It never blocks, so that it does not trigger the SDK's deadlock detector.
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
	return d.check(d.CodecDataConverter.FromPayload(p, into))
}

// FromPayloads implements [converter.DataConverter].
func (d *dataConverter) FromPayloads(p *commonpb.Payloads, into ...any) error {
	return d.check(d.CodecDataConverter.FromPayloads(p, into...))
}

// check returns err. In a workflow, it panics if a payload could not be decrypted.
func (d *dataConverter) check(err error) error {
	if _, isDecryptError := errors.AsType[*decryptError](err); d.inWorkflow && isDecryptError {
		panic(err) //nolint:forbidigo // fails the workflow task and not the workflow
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
