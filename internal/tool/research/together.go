package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

const togetherTool = "search_research"

// defaultTogether is how many results search_research answers unless told.
const defaultTogether = 20

// together searches several sources at once.
type together struct {
	query    string
	max      int
	searches []search
}

// allSources are in the order in which their results are mixed.
func (t *toolkit) allSources() []string {
	all := []string{pubmedName, preprintsName, openAlexName, trialsName}
	if t.web != nil {
		all = append(all, webName)
	}
	return all
}

func (t *toolkit) parseTogether(args json.RawMessage) (search, error) {
	var in struct {
		common
		Sources  *[]string `json:"sources"`
		FromYear *int      `json:"from_year"`
		ToYear   *int      `json:"to_year"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	s := together{}
	var err error
	if s.query, s.max, err = in.wanted(defaultTogether); err != nil {
		return nil, err
	}
	span, err := years(in.FromYear, in.ToYear)
	if err != nil {
		return nil, err
	}
	chosen := t.allSources()
	if in.Sources != nil {
		if len(*in.Sources) == 0 {
			return nil, agent.Invalid("sources", "is empty")
		}
		if chosen, err = choices("sources", in.Sources, t.allSources()); err != nil {
			return nil, err
		}
	}
	for _, source := range t.allSources() {
		if slices.Contains(chosen, source) {
			s.searches = append(s.searches, t.one(source, s.query, s.max, span))
		}
	}
	return &s, nil
}

// one is the part of a search that goes to one source.
func (t *toolkit) one(source, query string, n int, years span) search {
	switch source {
	case pubmedName:
		return &pubmedSearch{query: query, max: n, span: years}
	case preprintsName:
		if balanced(query) != nil { // only Europe PMC minds
			query = strings.NewReplacer("(", " ", ")", " ", `"`, " ").Replace(query)
		}
		return &preprintsSearch{query: query, max: n, span: years, alone: true} // papers are PubMed's and OpenAlex's
	case openAlexName:
		return &openAlexSearch{query: query, max: n, span: years}
	case trialsName:
		return &trialsSearch{query: query, max: n}
	default:
		return &webSearch{provider: t.web, pace: t.webPace, q: WebQuery{Words: query, Max: n}}
	}
}

func (s *together) source() string {
	names := make([]string, len(s.searches))
	for i := range s.searches {
		names[i] = s.searches[i].source()
	}
	return strings.Join(names, ",")
}

func (*together) title() string   { return "research" }
func (s *together) wants() int    { return s.max }
func (s *together) words() string { return s.query }

// run asks all sources at once, each within its own time. Those that fail are listed; when all fail, so does the search.
func (s *together) run(ctx context.Context, x *exchange) (*found, error) {
	got := make([]*found, len(s.searches))
	errs := make([]error, len(s.searches))
	var running sync.WaitGroup
	for i, one := range s.searches {
		running.Go(func() {
			got[i], errs[i] = guarded(ctx, x, one)
			x.inv.Report(progress(one, got[i], errs[i]))
		})
	}
	running.Wait()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	out := &found{}
	var lists [][]work
	for i, one := range s.searches {
		if errs[i] != nil {
			out.failed = append(out.failed, failure{Source: one.source(), Error: clip(errs[i].Error(), 2*maxComplaint)})
			continue
		}
		out.total += got[i].total
		for _, w := range got[i].warnings {
			out.warn("%s", w)
		}
		lists = append(lists, got[i].works)
	}
	if len(lists) == 0 {
		return nil, allFailed(errs, out.failed)
	}
	out.works = mix(lists, s.max)
	return out, nil
}

// guarded asks one source. A fault of ours in reading what it sent is that source's failure, and not the end of the process.
func guarded(ctx context.Context, x *exchange, one search) (f *found, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, agent.Errorf(agent.CodeInternal, opSearch, "%s: its answer could not be handled", one.title())
		}
	}()
	bounded, free := context.WithTimeout(ctx, x.kit.cfg.SourceTimeout)
	defer free()
	f, err = one.run(bounded, x)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "%s did not answer within %s", one.title(), x.kit.cfg.SourceTimeout)
	}
	return f, err
}

func progress(one search, f *found, err error) string {
	if err != nil {
		return one.title() + ": failed"
	}
	return fmt.Sprintf("%s: %d results", one.title(), len(f.works))
}

// allFailed is one error for all: retryable when any of them is.
func allFailed(errs []error, failures []failure) error {
	code := agent.CodeOf(errs[0])
	var texts []string
	for i, f := range failures {
		if c := agent.CodeOf(errs[i]); c == agent.CodeUnavailable || c == agent.CodeRateLimited {
			code = c
		}
		texts = append(texts, f.Source+": "+f.Error)
	}
	return agent.Errorf(code, "", "all sources failed: %s", clip(strings.Join(texts, "; "), maxQuoted))
}

const maxQuoted = 1800 // characters of what several sources have said

// mix makes one list of several: the first of each, then the second of each and so on, each work once.
func mix(lists [][]work, limit int) []work {
	var all []work
	longest := 0
	for _, l := range lists {
		longest = max(longest, len(l))
	}
	for row := range longest {
		for _, l := range lists {
			if row < len(l) {
				all = append(all, l[row])
			}
		}
	}
	for before := -1; before != len(all); { // what was united may be the same as another
		before, all = len(all), once(all)
	}
	return all[:min(limit, len(all))]
}

// once unites works that share a key: what is known best of each stands where the first of them stood.
func once(all []work) []work {
	var out []work
	for i := range all {
		w := &all[i]
		same := slices.IndexFunc(out, func(o work) bool { return shareKey(&o, w) })
		if same < 0 {
			out = append(out, *w)
			continue
		}
		a, b := &out[same], w
		if b.weight() > a.weight() {
			a, b = b, a
		}
		merged := *a
		merged.also = slices.Clone(a.also)
		unite(&merged, b)
		out[same] = merged
	}
	return out
}

func shareKey(a, b *work) bool {
	keys := b.keys()
	return slices.ContainsFunc(a.keys(), func(k string) bool { return slices.Contains(keys, k) })
}
