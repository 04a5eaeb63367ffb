package codec

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// dataConverter is the SDK's converter with a codec. Within a workflow it panics if a payload cannot be decrypted. After an error the SDK
// would fail the workflow, for its arguments, or drop a signal. After a panic it fails only the workflow task; the server retries the task,
// perhaps on a worker that has the key.
//
// It never blocks, so that the SDK's deadlock detector is not triggered.
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

func (d *dataConverter) check(err error) error {
	if _, unreadable := errors.AsType[*decryptError](err); d.inWorkflow && unreadable {
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
