package devstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// AwaitFrontend waits until the namespace of the server at address can be used and has the search attributes, which it registers if they are
// missing.
func AwaitFrontend(ctx context.Context, address string, attributes map[string]enumspb.IndexedValueType) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is on its way any more

	workflows := workflowservice.NewWorkflowServiceClient(conn)
	if err := Until(ctx, func() error {
		_, err := workflows.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
		return err
	}); err != nil {
		return fmt.Errorf("wait for the frontend: %w", err)
	}
	return ensureSearchAttributes(ctx, workflows, operatorservice.NewOperatorServiceClient(conn), attributes)
}

// ensureSearchAttributes registers the missing search attributes. A namespace of an earlier start may lack some.
func ensureSearchAttributes(
	ctx context.Context,
	workflows workflowservice.WorkflowServiceClient,
	operator operatorservice.OperatorServiceClient,
	wanted map[string]enumspb.IndexedValueType,
) error {
	var existing map[string]enumspb.IndexedValueType
	if err := Until(ctx, func() error {
		list, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: Namespace})
		existing = list.GetCustomAttributes()
		return err
	}); err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	missing := make(map[string]enumspb.IndexedValueType)
	for name, kind := range wanted {
		switch have, ok := existing[name]; {
		case !ok:
			missing[name] = kind
		case have != kind:
			return fmt.Errorf("search attribute %s is a %s in namespace %q, want %s", name, have, Namespace, kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := Until(ctx, func() error {
		_, err := operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: Namespace, SearchAttributes: missing,
		})
		if status.Code(err) == codes.InvalidArgument { // such as more of a type than the database has columns for
			return backoff.Permanent(err)
		}
		return err
	}); err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	// They work once the frontend has read the namespace again.
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if err := Until(ctx, func() error {
			_, err := workflows.CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: Namespace, Query: name + " IS NOT NULL",
			})
			return err
		}); err != nil {
			return fmt.Errorf("wait for search attribute %s: %w", name, err)
		}
	}
	return nil
}

// Until calls try at a steady pace until it succeeds, fails permanently, or ctx ends. The error at the end of ctx includes the last error of try.
func Until(ctx context.Context, try func() error) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try()
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return struct{}{}, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(20*time.Millisecond)), backoff.WithMaxElapsedTime(ReadyTimeout))
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, last)
	}
	return err
}
