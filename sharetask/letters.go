package sharetask

import (
	"context"

	"github.com/sluicehq/sluice/pluginapi"
)

// letter is one record on its way to the dead letter queue. Its delivery is
// held until the letter is confirmed or the task ends.
type letter struct {
	d        *delivery
	index    int32
	cause    string
	attempts int
	dead     DeadLetter
}

// letterJob is a batch of letters being written, and back with one error each.
type letterJob struct {
	letters []letter
	errs    []error
}

// maxLetters bounds one write to the dead letter queue.
const maxLetters = 500

// newLetter makes the letter of record i of d.
func newLetter(d *delivery, i int32, stage Stage, cause string, e *pluginapi.Error) letter {
	l := letter{d: d, index: i, cause: cause, dead: DeadLetter{
		Record: &d.Records[i], Stage: stage, DeliveryCount: d.deliveryCount(i), Message: cause,
	}}
	if e != nil {
		l.dead.Class, l.dead.Code = e.Class, e.Code
		if e.Message != "" {
			l.dead.Message = e.Message
		}
	}
	return l
}

// writeLetters writes job and sends it back.
func writeLetters(ctx context.Context, queue DeadLetterQueue, job *letterJob, back chan<- *letterJob) {
	dead := make([]DeadLetter, len(job.letters))
	for i := range job.letters {
		dead[i] = job.letters[i].dead
	}
	job.errs = queue.Write(ctx, dead)
	back <- job
}
