package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Attributes are the groups of search attributes that a namespace has.
type Attributes struct {
	Turn   bool // those of every turn
	Status bool // those of turns that waited or did not complete
}

// FindAttributes asks the namespace for its search attributes.
func FindAttributes(ctx context.Context, c client.Client, namespace string) (Attributes, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	registered, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return Attributes{}, fmt.Errorf("list search attributes: %w", err)
	}
	isMissing := func(name string) bool {
		return registered.GetCustomAttributes()[name] != workflows.SearchAttributes()[name]
	}
	return Attributes{
		Turn:   !slices.ContainsFunc(workflows.TurnAttributeNames(), isMissing),
		Status: !slices.ContainsFunc(workflows.StatusAttributeNames(), isMissing),
	}, nil
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

	known atomic.Pointer[Attributes]
}

// KnowsTurns reports whether the last check found the attributes of every turn.
func (w *AttributeWatch) KnowsTurns() bool {
	known := w.known.Load()
	return known != nil && known.Turn
}

// KnowsStatus reports whether the last check found the attributes of turns that waited or did not complete.
func (w *AttributeWatch) KnowsStatus() bool {
	known := w.known.Load()
	return known != nil && known.Status
}

// KnowsAll reports whether the last check found all attributes.
func (w *AttributeWatch) KnowsAll() bool { return w.KnowsTurns() && w.KnowsStatus() }

// Check asks the server and stores the result. If the server does not answer, the last result stays.
func (w *AttributeWatch) Check(ctx context.Context) error {
	known, err := FindAttributes(ctx, w.Temporal, w.Namespace)
	if err == nil {
		w.known.Store(&known)
	}
	return err
}

// Run checks once a minute until the namespace has all attributes.
func (w *AttributeWatch) Run(ctx context.Context) {
	if w.KnowsAll() {
		return
	}
	w.Logger.Warn("the namespace lacks search attributes of Turnstone: turns run without them; register them with \"starter setup\"",
		zap.String("namespace", w.Namespace))
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for !w.KnowsAll() {
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
