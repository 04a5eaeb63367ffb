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

// AwaitFrontend waits until the server at address has the namespace. It then registers the search attributes that are missing.
func AwaitFrontend(ctx context.Context, address string, attributes map[string]enumspb.IndexedValueType) error {
	ctx, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	defer conn.Close() //nolint:errcheck // all requests have ended

	workflows := workflowservice.NewWorkflowServiceClient(conn)
	if err := Until(ctx, func() error {
		_, err := workflows.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
		return err
	}); err != nil {
		return fmt.Errorf("wait for the frontend: %w", err)
	}
	return ensureSearchAttributes(ctx, workflows, operatorservice.NewOperatorServiceClient(conn), attributes)
}

// ensureSearchAttributes registers the search attributes that the namespace lacks, and waits until they work.
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
		if status.Code(err) == codes.InvalidArgument { // for example, the database has no more columns for this type
			return backoff.Permanent(err)
		}
		return err
	}); err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	// They work when the frontend has read the namespace again.
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

// Until calls try again and again until it succeeds, returns a [backoff.PermanentError], or ctx ends. If ctx ends, the error includes the last error
// of try.
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
