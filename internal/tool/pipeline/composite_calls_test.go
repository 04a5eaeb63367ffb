package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestUsesThatAreNotCounted(t *testing.T) {
	server, _ := flightServer(t)
	reformat := func(raw json.RawMessage) (json.RawMessage, error) {
		if strings.HasPrefix(string(raw), "[") {
			return json.RawMessage(" " + strings.ReplaceAll(string(raw), ",", ", ")), nil
		}
		return raw, nil
	}
	hide := func(raw json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.ReplaceAll(string(raw), "NYC", "<city>")), nil
	}
	broken := func(raw json.RawMessage) (json.RawMessage, error) {
		if strings.HasPrefix(string(raw), "[") {
			return nil, errors.New("cannot")
		}
		return raw, nil
	}
	fetch := `{"step":"http_request","url":"` + server.URL + `/f","params":{"origin":"NYC"}}`
	tests := map[string]struct {
		args   string
		redact func(json.RawMessage) (json.RawMessage, error)
		counts bool
	}{
		"no redaction":     {fetch, nil, true},
		"unchanged":        {fetch, reformat, true},
		"redacted":         {fetch, hide, false},
		"redaction fails":  {fetch, broken, false},
		"posts":            {strings.Replace(fetch, `"url"`, `"method":"POST","url"`, 1), nil, false},
		"fails":            {fetch + `,{"step":"table_sort","field":"none"}`, nil, false},
		"compares objects": {fetch + `,{"step":"table_filter","condition":{"field":"id","op":"!=","value":{"$parameter":"x"}}}`, nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newPromotingKit(t, pipeline.Config{HTTP: client(t, egress.Config{}, server.URL), Composites: &tooltest.CompositeStore{}, PromoteAfter: 1})
			s.runIn(t, agent.Invocation{Tenant: "acme", Redact: tt.redact}, `{"session_id":"s","pipeline":[`+tt.args+`]}`)
			want := 0
			if tt.counts {
				want = 1
			}
			require.Len(t, s.list(t), want)
		})
	}
	t.Run("no steps", func(t *testing.T) {
		s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1]`}, Composites: &tooltest.CompositeStore{}, PromoteAfter: 1})
		require.Nil(t, s.runIn(t, agent.Invocation{Tenant: "acme"}, `{"session_id":"s","input_ref":"cas://a","pipeline":[]}`).Failure)
		require.Empty(t, s.list(t))
	})
}

// TestUsesAreCalls checks that several attempts of a call count once, and that a cached result counts as a use.
func TestUsesAreCalls(t *testing.T) {
	store, memory := newStore(), &tooltest.CompositeStore{}
	store.content["acme/cas://a"] = `[{"a":1}]`
	cached := &results{}
	s := newPromotingKit(t, pipeline.Config{Blobs: store, Datasets: store, Results: cached, Composites: memory})
	args := `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":1}]}`
	for range 3 {
		s.runIn(t, agent.Invocation{Tenant: "acme", IdempotencyKey: "same"}, args)
	}
	require.Empty(t, s.list(t))
	require.True(t, s.runIn(t, agent.Invocation{Tenant: "acme", IdempotencyKey: "another"}, args).CacheHit)
	made := s.only(t)
	require.Contains(t, string(s.use(t, made, `{"input_ref":"cas://a"}`).Output), `"cache_hit":true`)
	list, err := memory.Composites(t.Context(), "acme")
	require.NoError(t, err)
	require.EqualValues(t, 3, list[0].Uses, "the composite's own calls are uses")
}

// troubled is a store whose methods fail, or do not return before the context ends.
type troubled struct {
	tooltest.CompositeStore

	useErr, saveErr, listErr error
	hangs                    bool
	lists                    int // calls of Composites
}

func (s *troubled) answer(ctx context.Context, err error) error {
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *troubled) UsePipeline(ctx context.Context, u agent.PipelineUse) (agent.PipelineUses, error) {
	if err := s.answer(ctx, s.useErr); err != nil {
		return agent.PipelineUses{}, err
	}
	return s.CompositeStore.UsePipeline(ctx, u)
}

func (s *troubled) SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error) {
	if err := s.answer(ctx, s.saveErr); err != nil {
		return agent.Composite{}, err
	}
	return s.CompositeStore.SaveComposite(ctx, c)
}

func (s *troubled) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	s.lists++
	if s.listErr != nil {
		return nil, s.listErr
	}
	return s.CompositeStore.Composites(ctx, tenant)
}

func (s *troubled) Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error) {
	if s.listErr != nil {
		return agent.Composite{}, s.listErr
	}
	return s.CompositeStore.Composite(ctx, tenant, id, version)
}

// TestStoreInTrouble checks that calls succeed although the store of composites fails.
func TestStoreInTrouble(t *testing.T) {
	away := errors.New("away")
	for name, store := range map[string]*troubled{"use": {useErr: away}, "save": {saveErr: away}, "list": {listErr: away}} {
		t.Run(name, func(t *testing.T) {
			s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1]`}, Composites: store, PromoteAfter: 1})
			args := `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":1}]}`
			require.Nil(t, s.runIn(t, agent.Invocation{Tenant: "acme"}, args).Failure)
			if name == "list" {
				_, err := s.kit.List(t.Context(), scope)
				require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
				_, err = s.kit.Find(t.Context(), scope, "x", "cmp_1@1")
				require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
			}
			store.useErr, store.saveErr, store.listErr = nil, nil, nil
			s.runIn(t, agent.Invocation{Tenant: "acme"}, args)
			require.NotEmpty(t, s.only(t).Spec.Name, "the next use promotes")
		})
	}
	t.Run("no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1]`}, Composites: &troubled{hangs: true}})
			began := time.Now()
			require.Nil(t, s.runIn(t, agent.Invocation{Tenant: "acme"}, `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":1}]}`).Failure)
			require.Equal(t, time.Second, time.Since(began))
		})
	})
}

func TestFindRefusesHandles(t *testing.T) {
	s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1]`}, Composites: &tooltest.CompositeStore{}, PromoteAfter: 1})
	s.runIn(t, agent.Invocation{Tenant: "acme"}, `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":1}]}`)
	made := s.only(t)
	s.find(t, made)
	for _, handle := range []string{"", "@1", "cmp_1", "cmp_1@", "cmp_1@x", "cmp_1@0", "cmp_1@-1", "cmp_1@2", "cmp_9@1"} {
		_, err := s.kit.Find(t.Context(), scope, made.Spec.Name, handle)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), handle)
	}
	_, err := s.kit.Find(t.Context(), agent.ToolScope{Tenant: "other"}, made.Spec.Name, made.Handle)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "a handle works only for its tenant")

	off := pipeline.New(pipeline.Config{Composites: &tooltest.CompositeStore{}}).(agent.DynamicToolkit)
	listed, err := off.List(t.Context(), scope)
	require.NoError(t, err)
	require.Empty(t, listed)
	_, err = off.Find(t.Context(), scope, made.Spec.Name, made.Handle)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

// TestChangedByAPerson checks that a person's changes affect new turns, while a turn with the tool keeps it.
func TestChangedByAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &tooltest.CompositeStore{}
		s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1,2]`}, Composites: memory})
		run := func(k int) {
			s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(`{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":%d}]}`, k))
		}
		run(1)
		run(1)
		made := s.only(t)
		name, words := "head", "The first ones."
		_, err := memory.ChangeComposite(t.Context(), "acme", made.Spec.Name, agent.CompositeChange{Name: &name, Description: &words})
		require.NoError(t, err)
		require.Equal(t, made, s.only(t), "a listing is cached for two seconds")
		time.Sleep(2 * time.Second)
		renamed := s.only(t)
		require.Equal(t, name, renamed.Spec.Name)
		require.Equal(t, words, renamed.Spec.Description)
		require.Contains(t, string(s.use(t, made, `{"input_ref":"cas://a"}`).Output), `"composite":"`+made.Spec.Name+`"`)

		off, on := false, true
		_, err = memory.ChangeComposite(t.Context(), "acme", name, agent.CompositeChange{Enabled: &off})
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.Empty(t, s.list(t))
		require.Nil(t, s.use(t, made, `{"input_ref":"cas://a"}`).Failure, "a turn that has it keeps it")
		run(2)
		time.Sleep(2 * time.Second)
		require.Empty(t, s.list(t), "it is not promoted again")
		_, err = memory.ChangeComposite(t.Context(), "acme", name, agent.CompositeChange{Enabled: &on})
		require.NoError(t, err)
		run(2)
		require.Equal(t, name, s.only(t).Spec.Name)
		properties, _ := schemaOf(t, s.only(t))
		require.Contains(t, properties, "top", "it was extended")
	})
}

func TestListingsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &troubled{}
		s := newPromotingKit(t, pipeline.Config{Composites: store})
		for range 3 {
			s.list(t)
			time.Sleep(time.Second)
		}
		require.Equal(t, 2, store.lists)
	})
}

// TestProcessesPromoteAtOnce checks that several processes that promote a shape at once make one composite, which all of them list.
func TestProcessesPromoteAtOnce(t *testing.T) {
	memory := &tooltest.CompositeStore{}
	const processes, calls = 4, 25
	var all sync.WaitGroup
	kits := make([]*promotingKit, processes)
	for i := range kits {
		kits[i] = newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[1,2,3]`}, Composites: memory})
		kit := kits[i].kit
		for c := range calls {
			all.Go(func() {
				args := fmt.Sprintf(`{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":%d}]}`, 1+(c+i)%3)
				inv := agent.Invocation{Tenant: "acme", IdempotencyKey: fmt.Sprintf("%d-%d", i, c)}
				_, _ = kit.Tools()[0].Call(t.Context(), inv, agent.ToolCall{Name: pipeline.ToolName, Args: json.RawMessage(args)})
			})
		}
	}
	all.Wait()
	list, err := memory.Composites(t.Context(), "acme")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, processes*calls, list[0].Uses)
	for _, s := range kits {
		require.Nil(t, s.use(t, s.only(t), `{"input_ref":"cas://a","top":2}`).Failure)
	}
}

// TestCompositesAreBounded checks that a tenant has at most 200 composites.
func TestCompositesAreBounded(t *testing.T) {
	memory := &tooltest.CompositeStore{}
	s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[{"a":1}]`}, Composites: memory, PromoteAfter: 1})
	for i := range 198 {
		_, err := memory.SaveComposite(t.Context(), agent.Composite{
			Tenant: "acme", Name: fmt.Sprintf("made_%d", i), Shape: fmt.Sprint(i), Version: 1, Enabled: true,
			Parameters: json.RawMessage(`{"type":"object","properties":{}}`), Pipeline: json.RawMessage(`[{"step":"top_k","k":1}]`),
		})
		require.NoError(t, err)
	}
	for i := range 5 {
		s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(`{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"jq_transform","query":".[%d]?"}]}`, i))
	}
	require.Len(t, s.list(t), 200)
}

func TestPromotionNeedsAStore(t *testing.T) {
	available := tool.Dependencies{HTTP: client(t, egress.Config{}), Auth: &authority{}, Blobs: newStore(), Datasets: newStore(), Results: &results{}}
	_, err := tool.Build(available, pipeline.Factory(pipeline.Config{PromoteAfter: 2}))
	require.ErrorContains(t, err, `toolkit "pipeline" needs composite tools`)
	available.Composites = &tooltest.CompositeStore{}
	r, err := tool.Build(available, pipeline.Factory(pipeline.Config{PromoteAfter: 2}))
	require.NoError(t, err)
	require.True(t, r.Dynamic(pipeline.ToolkitName))
}

// TestCompositeKeepsTheInlineBound checks that the output of a composite does not exceed the inline bound by the composite's name.
func TestCompositeKeepsTheInlineBound(t *testing.T) {
	store := newStore()
	store.content["acme/cas://a"] = `[{"a":"` + strings.Repeat("x", 300) + `"}]`
	s := newPromotingKit(t, pipeline.Config{Blobs: store, Datasets: store, Composites: &tooltest.CompositeStore{}, PromoteAfter: 1})
	s.runIn(t, agent.Invocation{Tenant: "acme"}, `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"top_k","k":1}]}`)
	found, err := s.kit.Find(t.Context(), scope, strings.Repeat("n", 64), s.only(t).Handle)
	require.NoError(t, err)
	inlined := 0
	for maxBytes := 400; maxBytes < 700; maxBytes++ {
		res, err := found.Call(t.Context(), agent.Invocation{Tenant: "acme", InlineBytes: maxBytes}, agent.ToolCall{Args: json.RawMessage(`{"input_ref":"cas://a"}`)})
		require.NoError(t, err)
		require.Nil(t, res.Failure)
		if res.Data != nil {
			inlined++
			require.LessOrEqual(t, len(res.Output), maxBytes)
		}
	}
	require.Positive(t, inlined)
}
