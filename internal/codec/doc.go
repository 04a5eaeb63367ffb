// Package codec keeps the content of Temporal's payloads from whoever can read histories: it encrypts them, and puts large ones elsewhere.
//
//	value → JSON → encrypted ([Keyring]) → at or above the threshold: stored ([Objects]), and a reference in its place → history
//
// Both are optional, and both may be switched on while histories without them exist: what is not encrypted, or not a reference, is read as
// it is. Encryption is in the format of Temporal's own samples (AES-256-GCM), so that codecs of other languages read it, and the other way
// round. Storing is the SDK's external storage, which does its I/O before and after workflow code and never within.
//
// What is encrypted: arguments, results, signals, updates, queries, memos, summaries, heartbeats, and the messages and traces of errors. What
// is not: workflow ids, types, task queues, search attributes, and the types of errors.
//
// A payload that cannot be decrypted (its key is not known here) fails the workflow task, which the server gives out again until a worker
// with the key takes it. It never fails the workflow, and never loses a signal: see dataConverter.
package codec
