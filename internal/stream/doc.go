// Package stream holds the rules that every implementation of the event log (docs/design/design.md, "The event log") shares: what a batch may contain, how
// large it may be, and how an event is written as JSON.
//
// The life of a stream, whose id is its turn's:
//
//	         Begin, Cancel                    Close (the first one)
//	absent ────────────────▶ open ─────────────────────────────────▶ closed ──▶ expired
//	   │                    Append: index 1, 2, 3, …     Follow ends       Follow: gap
//	   └───────────────────────────── Close ──────────────────────────▲
//
// A producer (model/2, tool/2/call_x) begins an epoch, which fences every earlier one of its own, and appends batches numbered
// by itself. When an earlier epoch had written, Begin appends reset{producer, from_index}: the events of that producer from
// that index on, up to the reset, are void. A reader that obeys resets therefore sees each text once.
//
// Implementations: [MemoryLog] for one process and
// [github.com/turnstone-run/turnstone/internal/stream/pgstream] for many; the suite that both must pass is
// [github.com/turnstone-run/turnstone/internal/stream/streamtest].
package stream
