package bench

import (
	"context"
	"strconv"
)

// rawSession is our own share session without a host around it.
func rawSession(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
	if err := l.newShareGroup(ctx, group); err != nil {
		return newSample(), err
	}
	args := []string{
		"-broker", l.bootstrap, "-topic", j.topic, "-group", group, "-records", strconv.FormatInt(j.records, 10),
		"-writers", strconv.Itoa(j.writers), "-delay", j.delay.String(), "-gogc", strconv.Itoa(l.gogc), "-limit", (startLimit + j.limit).String(),
	}
	if j.slowEvery > 0 {
		args = append(args, "-slow-every", strconv.FormatInt(j.slowEvery, 10), "-slow-for", j.slowFor.String())
	}
	if j.rate > 0 {
		args = append(args, "-ages")
	}
	return l.simple(ctx, j, m, l.program("rawsession"), args...)
}

// rawConsumer is franz-go's plain consumer group.
func rawConsumer(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
	return l.simple(ctx, j, m, l.program("rawconsumer"), "-broker", l.bootstrap, "-topic", j.topic, "-group", group,
		"-records", strconv.FormatInt(j.records, 10), "-limit", (startLimit + j.limit).String())
}

// simple runs a program that reports as test/bench/subject says.
func (l *lab) simple(ctx context.Context, j job, m *marks, name string, args ...string) (sample, error) {
	c, err := start(m, m.line, []string{"GOGC=" + strconv.Itoa(l.gogc)}, name, args...)
	if err != nil {
		return newSample(), err
	}
	err = await(ctx, c, m, j)
	s, unclear := conclude(c, m, 0)
	if err == nil {
		err = unclear
	}
	if lines := c.stderr.tail(1); lines != "" {
		s.remark = lines
	}
	return s, err
}
