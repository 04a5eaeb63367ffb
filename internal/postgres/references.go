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

// Bounds of references.
const (
	maxReferences     = 10_000 // of a session
	maxAdded          = 1_000  // in one call
	maxAliases        = 64
	maxReferenceBytes = 256 << 10 // of an item
)

// lockReferences locks the session's row, so that numbers have no gaps.
const lockReferences = `
INSERT INTO reference_lists (tenant, session_id, numbers) VALUES ($1, $2, 0)
ON CONFLICT (tenant, session_id) DO UPDATE SET numbers = reference_lists.numbers
RETURNING numbers, clock_timestamp()`

const referenceColumns = `
SELECT number, key, aliases, source, item, added_at FROM session_references WHERE tenant = $1 AND session_id = $2 `

// readNamed reads the references that have one of the names $3.
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

// References lists the sources of a session by number.
func (s *SessionStore) References(ctx context.Context, tenant string, id agent.SessionID) ([]agent.Reference, error) {
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[agent.Reference], referenceColumns+`ORDER BY number LIMIT $3`, tenant, id, maxReferences)
	return found, mapError("list references", err)
}

// AddReferences stores new sources with the next numbers, and returns the stored form of each element of refs. Two sources are the same if they share a key
// or an alias. If an element matches several stored sources, it is the one with the lowest number. A stored source gets the aliases that no other source
// has, and the members that its item lacks. If a source cannot be stored, the error is [agent.CodeInvalid] with its field; for more than 10,000 sources it
// is [agent.CodeOverflow]. After an error nothing is stored.
func (s *SessionStore) AddReferences(ctx context.Context, tenant string, id agent.SessionID, refs []agent.Reference) ([]agent.Reference, error) {
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
	list := referenceList{byName: map[string]int{}, byNumber: map[int]*agent.Reference{}, changed: map[int]bool{}}
	numbers := make([]int, len(refs))
	var stored []agent.Reference
	err := s.transact(ctx, func(b *pgx.Batch) {
		b.Queue(lockReferences, tenant, id).QueryRow(scanInto(&list.last, &list.now))
		queueRows(b, &stored, pgx.RowToStructByName[agent.Reference], readNamed, tenant, id, names)
	}, func(b *pgx.Batch) (err error) {
		for i := range stored {
			list.addStored(&stored[i])
		}
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
	all := make([]agent.Reference, len(refs))
	for i, n := range numbers {
		all[i] = *list.byNumber[n]
		all[i].Aliases, all[i].Item = slices.Clone(all[i].Aliases), slices.Clone(all[i].Item)
	}
	return all, nil
}

// referenceList holds the references that a call of AddReferences reads and writes.
type referenceList struct {
	last     int // the highest number of the session
	now      time.Time
	byName   map[string]int // the numbers of keys and aliases
	byNumber map[int]*agent.Reference

	changed map[int]bool // the numbers of the references to write
	names   []string     // the new names to write
	numbers []int        // the numbers of these names
}

func (l *referenceList) addStored(r *agent.Reference) {
	l.byNumber[r.Number] = r
	for _, name := range append([]string{r.Key}, r.Aliases...) {
		l.byName[name] = r.Number
	}
}

// add adds a source and returns its number.
func (l *referenceList) add(r *agent.Reference) (int, error) {
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
	} else if err := l.mergeMissing(number, r.Item); err != nil {
		return 0, err
	}
	stored := l.byNumber[number]
	for _, name := range names {
		if l.byName[name] > 0 || name != stored.Key && len(stored.Aliases) >= maxAliases {
			continue
		}
		if name != stored.Key {
			stored.Aliases = append(stored.Aliases, name)
		}
		l.byName[name] = number
		l.names, l.numbers, l.changed[number] = append(l.names, name), append(l.numbers, number), true
	}
	return number, nil
}

// mergeMissing copies the members of newItem that the stored item of a reference lacks.
func (l *referenceList) mergeMissing(number int, newItem json.RawMessage) error {
	var (
		stored        = l.byNumber[number]
		item, missing map[string]json.RawMessage
	)
	if err := json.Unmarshal(stored.Item, &item); err != nil {
		return err
	}
	if err := json.Unmarshal(newItem, &missing); err != nil {
		return err
	}
	maps.DeleteFunc(missing, func(name string, _ json.RawMessage) bool {
		_, has := item[name]
		return has
	})
	if len(missing) == 0 {
		return nil
	}
	maps.Copy(item, missing)
	merged, err := encode(item)
	if err != nil || len(merged) > maxReferenceBytes { // keep the stored item if the merged one is too large
		return err
	}
	stored.Item, l.changed[number] = merged, true
	return nil
}

func (l *referenceList) queue(b *pgx.Batch, tenant string, id agent.SessionID) {
	for _, number := range slices.Sorted(maps.Keys(l.changed)) {
		r := l.byNumber[number]
		b.Queue(writeReference, tenant, id, r.Number, r.Key, append([]string{}, r.Aliases...), r.Source, []byte(r.Item), r.AddedAt)
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
			return inElement("references", i, err)
		}
	}
	return nil
}

func checkReference(r *agent.Reference) *agent.Error {
	if err := checkNames(nameField{"key", r.Key, true}, nameField{"source", r.Source, false}); err != nil {
		return err
	}
	if len(r.Aliases) > maxAliases {
		return agent.Invalid("aliases", "are %d, at most %d", len(r.Aliases), maxAliases)
	}
	for i, alias := range r.Aliases {
		if err := checkNames(nameField{fmt.Sprintf("aliases[%d]", i), alias, true}); err != nil {
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
