// The calls of models in a turn's time: when each was asked, wrote first, and ended.

// The most text that a model call of the timeline keeps, in characters.
const maxSegmentText = 4000;

const isModel = (producer) => /^(?:model|answer)\b/.test(producer);
const segmentOf = (turn, producer) => turn.segments.findLast((s) => s.producer === producer && !s.call && !s.lost);

// write notes that a model wrote. Its call began when the event before it was over: no event says so itself.
export function write(turn, producer, before, at, written) {
  if (!isModel(producer)) return;
  let s = segmentOf(turn, producer);
  if (!s) {
    s = { producer, asked: before || at, first: at, to: at, call: null, text: '', lost: false };
    turn.segments.push(s);
  }
  s.to = at;
  if (written && s.text.length < maxSegmentText) s.text += written;
}

// endCall ends the model call of a producer with what it used.
export function endCall(turn, call, before) {
  let s = segmentOf(turn, call.producer);
  if (!s) {
    s = { producer: call.producer, asked: before || call.at, first: call.at, to: call.at, text: '', lost: false };
    turn.segments.push(s);
  }
  Object.assign(s, { to: call.at, call });
}
