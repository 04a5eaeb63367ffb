package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/workflows"
)

const (
	// callTimeout bounds one call to the Temporal frontend.
	callTimeout = 10 * time.Second
	// recheckInterval is the time between two checks of a namespace without the attributes.
	recheckInterval = time.Minute
)

// HasAttributes reports whether the namespace knows the search attributes of turns.
func HasAttributes(ctx context.Context, c client.Client, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	registered, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return false, fmt.Errorf("list search attributes: %w", err)
	}
	for name, kind := range workflows.SearchAttributes() {
		if registered.GetCustomAttributes()[name] != kind {
			return false, nil
		}
	}
	return true, nil
}

// AddAttributes registers the missing search attributes, for "starter setup".
func AddAttributes(ctx context.Context, c client.Client, namespace string) error {
	for name, kind := range workflows.SearchAttributes() {
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{name: kind},
		})
		if _, exists := errors.AsType[*serviceerror.AlreadyExists](err); err != nil && !exists {
			return fmt.Errorf("register search attribute %s: %w", name, err)
		}
	}
	return nil
}

// AttributeWatch checks whether the namespace has the attributes. Turns run without them, with one warning.
type AttributeWatch struct {
	Temporal  client.Client
	Namespace string
	Logger    *zap.Logger

	known atomic.Bool
}

// Known reports the result of the last check.
func (w *AttributeWatch) Known() bool { return w.known.Load() }

// Check asks the server and stores the result.
func (w *AttributeWatch) Check(ctx context.Context) error {
	known, err := HasAttributes(ctx, w.Temporal, w.Namespace)
	w.known.Store(known)
	return err
}

// Run checks once a minute until the namespace has the attributes.
func (w *AttributeWatch) Run(ctx context.Context) {
	if w.Known() {
		return
	}
	w.Logger.Warn("the namespace lacks Turnstone's search attributes: turns run without them; register them with \"starter setup\"",
		zap.String("namespace", w.Namespace))
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for !w.Known() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := w.Check(ctx); err != nil {
				w.Logger.Debug("search attributes", zap.Error(err))
			}
		}
	}
}
