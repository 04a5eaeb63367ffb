package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/workflows"
)

// operator is a cluster whose namespace has some search attributes.
type operator struct {
	client.Client
	operatorservice.OperatorServiceClient

	registered map[string]enumspb.IndexedValueType
	err        error
}

func (o *operator) OperatorService() operatorservice.OperatorServiceClient { return o }

func (o *operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (
	*operatorservice.ListSearchAttributesResponse, error,
) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.registered}, o.err
}

func TestAttributeWatch(t *testing.T) {
	o := &operator{registered: map[string]enumspb.IndexedValueType{}}
	w := &AttributeWatch{Temporal: o}
	require.False(t, w.KnowsTurns(), "before the first check")
	require.NoError(t, w.Check(t.Context()))
	require.False(t, w.KnowsTurns())

	for _, name := range workflows.TurnAttributeNames() {
		o.registered[name] = workflows.SearchAttributes()[name]
	}
	require.NoError(t, w.Check(t.Context()))
	require.True(t, w.KnowsTurns())
	require.False(t, w.KnowsStatus())

	o.err = errors.New("away")
	require.ErrorIs(t, w.Check(t.Context()), o.err)
	require.True(t, w.KnowsTurns(), "what was found stays known while the cluster is away")

	o.registered, o.err = workflows.SearchAttributes(), nil
	require.NoError(t, w.Check(t.Context()))
	require.True(t, w.KnowsAll())
}
