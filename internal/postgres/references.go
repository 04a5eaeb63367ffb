package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a conversation's references.
const (
	maxReferences     = 10_000 // of a conversation
	maxAdded          = 1_000  // at once
	maxAliases        = 64
	maxReferenceBytes = 256 << 10 // of an item
)

// The row is locked, so that numbers have no gaps.
const lockReferences = `
INSERT INTO reference_lists (tenant, session_id, numbers) VALUES ($1, $2, 0)
ON CONFLICT (tenant, session_id) DO UPDATE SET numbers = reference_lists.numbers
RETURNING numbers, clock_timestamp()`

const referenceColumns = `
SELECT number, key, aliases, source, item, added_at FROM session_references WHERE tenant = $1 AND session_id = $2 `

// Those that have one of the names $3.
const readNamed = referenceColumns + `AND number = ANY (ARRAY(
	SELECT number FROM reference_names WHERE tenant = $1 AND session_id = $2 AND name = ANY ($3)))`

const advanceReferences = `
UPDATE reference_lists SET numbers = $3 WHERE tenant = $1 AND session_id = $2`

const writeReference = `
INSERT INTO session_references (tenant, session_id, number, key, aliases, source, item, added_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, session_id, number) DO UPDATE SET aliases = excluded.aliases, item = excluded.item`

const writeNames = `
INSERT INTO reference_names (tenant, session_id, name, number)
SELECT $1, $2, n.name, n.number FROM unnest($3::text[], $4::integer[]) AS n (name, number)`

func scanReference(row pgx.CollectableRow) (r agent.Reference, err error) {
	err = row.Scan(&r.Number, &r.Key, &r.Aliases, &r.Source, (*[]byte)(&r.Item), &r.AddedAt)
	inUTC(&r.AddedAt)
	return r, err
}

// References lists the sources that a conversation has found, by number.
func (s *Store) References(ctx context.Context, tenant string, id agent.SessionID) ([]agent.Reference, error) {
	const op = "list references"
	rows, err := s.pool.Query(ctx, referenceColumns+`ORDER BY number LIMIT $3`, tenant, id, maxReferences)
	if err != nil {
		return nil, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanReference)
	return found, mapError(op, err)
}

// AddReferences keeps what is new, numbered on, and answers all of refs in their order as they are kept. A source is the same when a key or
// an alias is; of two that a name fits, it is the one with the lower number, and both stay. A source that is kept gains the aliases that no
// other has, and the members that its item lacks. [agent.CodeInvalid] with the field for what cannot be kept, [agent.CodeOverflow] for more
// than 10,000 sources; then nothing is. One transaction of two round trips.
func (s *Store) AddReferences(ctx context.Context, tenant string, id agent.SessionID, refs []agent.Reference) ([]agent.Reference, error) {
	const op = "add references"
	if len(refs) == 0 {
		return nil, agent.Interrupted(ctx, op)
	}
	if err := checkReferences(refs); err != nil {
		return nil, err
	}
	var names []string
	for i := range refs {
		names = append(append(names, refs[i].Key), refs[i].Aliases...)
	}
	list := bibliography{byName: map[string]int{}, byNumber: map[int]*agent.Reference{}, changed: map[int]bool{}}
	numbers := make([]int, len(refs))
	err := transact(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(lockReferences, tenant, id).QueryRow(func(row pgx.Row) error { return row.Scan(&list.last, &list.now) })
		b.Queue(readNamed, tenant, id, names).Query(func(rows pgx.Rows) error {
			known, err := pgx.CollectRows(rows, scanReference)
			for i := range known {
				list.know(&known[i])
			}
			return err
		})
	}, func(b *pgx.Batch) (err error) {
		before := list.last
		for i := range refs {
			if numbers[i], err = list.add(&refs[i]); err != nil {
				return err
			}
		}
		if list.last > maxReferences {
			return agent.Errorf(agent.CodeOverflow, op, "session %q has more than %d sources", id, maxReferences)
		}
		if list.last > before {
			b.Queue(advanceReferences, tenant, id, list.last)
		}
		list.queue(b, tenant, id)
		return nil
	})
	if err != nil {
		return nil, mapError(op, err)
	}
	kept := make([]agent.Reference, len(refs))
	for i, n := range numbers {
		kept[i] = *list.byNumber[n]
		kept[i].Aliases, kept[i].Item = slices.Clone(kept[i].Aliases), slices.Clone(kept[i].Item)
	}
	return kept, nil
}

// bibliography is what a call of AddReferences has to know of a conversation's.
type bibliography struct {
	last     int // the highest number
	now      time.Time
	byName   map[string]int // keys and aliases
	byNumber map[int]*agent.Reference

	changed map[int]bool // numbers that are to be written
	names   []string     // to be written, with their numbers
	numbers []int
}

func (l *bibliography) know(r *agent.Reference) {
	l.byNumber[r.Number] = r
	for _, name := range append([]string{r.Key}, r.Aliases...) {
		l.byName[name] = r.Number
	}
}

// add keeps a source and returns its number.
func (l *bibliography) add(r *agent.Reference) (int, error) {
	names := append([]string{r.Key}, r.Aliases...)
	number := 0
	for _, name := range names {
		if n := l.byName[name]; n > 0 && (number == 0 || n < number) {
			number = n
		}
	}
	if number == 0 {
		l.last++
		number = l.last
		l.byNumber[number] = &agent.Reference{
			Number: number, Key: r.Key, Source: r.Source, Item: slices.Clone(r.Item), AddedAt: l.now.UTC().Truncate(time.Microsecond),
		}
		l.changed[number] = true
	} else if err := l.enrich(number, r.Item); err != nil {
		return 0, err
	}
	kept := l.byNumber[number]
	for _, name := range names {
		if l.byName[name] > 0 || name != kept.Key && len(kept.Aliases) >= maxAliases {
			continue
		}
		if name != kept.Key {
			kept.Aliases = append(kept.Aliases, name)
		}
		l.byName[name] = number
		l.names, l.numbers, l.changed[number] = append(l.names, name), append(l.numbers, number), true
	}
	return number, nil
}

// enrich adds the members that an item lacks.
func (l *bibliography) enrich(number int, with json.RawMessage) error {
	var (
		kept         = l.byNumber[number]
		item, others map[string]json.RawMessage
	)
	if err := json.Unmarshal(kept.Item, &item); err != nil {
		return err
	}
	if err := json.Unmarshal(with, &others); err != nil {
		return err
	}
	maps.DeleteFunc(others, func(name string, _ json.RawMessage) bool {
		_, has := item[name]
		return has
	})
	if len(others) == 0 {
		return nil
	}
	maps.Copy(item, others)
	united, err := encode(item)
	if err != nil || len(united) > maxReferenceBytes {
		return err // what was kept first is enough
	}
	kept.Item, l.changed[number] = united, true
	return nil
}

func (l *bibliography) queue(b *pgx.Batch, tenant string, id agent.SessionID) {
	for _, number := range slices.Sorted(maps.Keys(l.changed)) {
		r := l.byNumber[number]
		aliases := r.Aliases
		if aliases == nil {
			aliases = []string{}
		}
		b.Queue(writeReference, tenant, id, r.Number, r.Key, aliases, r.Source, []byte(r.Item), r.AddedAt)
	}
	if len(l.names) > 0 {
		b.Queue(writeNames, tenant, id, l.names, l.numbers)
	}
}

func checkReferences(refs []agent.Reference) error {
	if len(refs) > maxAdded {
		return agent.Invalid("references", "are %d, at most %d at once", len(refs), maxAdded)
	}
	for i := range refs {
		if err := checkReference(&refs[i]); err != nil {
			return within("references", i, err)
		}
	}
	return nil
}

func checkReference(r *agent.Reference) *agent.Error {
	if err := checkNames(named{"key", r.Key, true}, named{"source", r.Source, false}); err != nil {
		return err
	}
	if len(r.Aliases) > maxAliases {
		return agent.Invalid("aliases", "are %d, at most %d", len(r.Aliases), maxAliases)
	}
	for i, alias := range r.Aliases {
		if err := checkNames(named{fmt.Sprintf("aliases[%d]", i), alias, true}); err != nil {
			return err
		}
	}
	if len(r.Item) > maxReferenceBytes {
		return agent.Invalid("item", "is %d bytes, at most %d", len(r.Item), maxReferenceBytes)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.Item, &members); err != nil || members == nil || !utf8.Valid(r.Item) {
		return agent.Invalid("item", "want a JSON object")
	}
	return nil
}
