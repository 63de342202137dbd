"""The exercises of the student's own engine: one for each file of ``mygrad``."""

from nbgrad.core.translation import translate
from nbgrad.lab.engine import PACKAGE
from nbgrad.lab.engine_checks import JUDGES
from nbgrad.lab.exercise import Exercise


def _exercise(number: str, part: str, title: str, task: str, hints: tuple[str, ...]) -> Exercise:
    ending = translate(
        'The rest of the file is there. Give the path of the file: "{package}/{part}.py".', package=PACKAGE, part=part
    )
    return Exercise(number, title, f"{task} {ending}", JUDGES[part], hints)


EXERCISES = (
    _exercise(
        "3.4",
        "scalars",
        "Your engine as a file",
        "The next cell writes its text into the file mygrad/scalars.py. Complete Value.__mul__, Value.tanh and "
        "topological with your answers to 3.1 and 3.2; each op now also gives its name, as __add__ does. Then write "
        "Value.relu: it gives the value itself if it is positive, and 0 if not.",
        (
            'Copy the bodies of your answers, and add a fourth argument to Value(...): "mul" and "tanh".',
            "relu has one parent. Its slope is 1 where the value is positive, and 0 elsewhere.",
            'The rule of relu is a tuple of one: (g * slope,). Its op is "relu".',
        ),
    ),
    _exercise(
        "4.4",
        "tensor",
        "Tensors for your engine",
        "Your engine gets arrays of numpy. Write unbroadcast(gradient, shape) for arrays, and Tensor.__mul__ and "
        "Tensor.__pow__. No rule has to care about broadcasting: backward calls unbroadcast for each gradient.",
        (
            "In numpy it is gradient.sum(dims, keepdims=True). An empty tuple of dims leaves the array as it is.",
            "__mul__ first calls as_tensor(other), as __add__ does: then x * 2 works, too.",
            "x ** power has one parent and the slope power * x ** (power - 1), as an array: self.data.",
        ),
    ),
    _exercise(
        "5.4",
        "ops",
        "Products of matrices",
        "Write matmul(a, b) for tensors of two and more dimensions: the product of the last two dimensions. Raise a "
        "ValueError if one of the two has fewer than two. Then write relu(x) and tanh(x).",
        (
            "Each op is one call: Tensor(value, parents, rule, name). Look at exp.",
            "The gradient of a has the shape of a. Which product of g and b has this shape? Which side is transposed?",
            "With more than two dimensions only the last two change places: array.swapaxes(-1, -2).",
        ),
    ),
    _exercise(
        "6.4",
        "losses",
        "The loss as one op",
        "Write cross_entropy(scores, labels) as one op with its own rule: the mean of -log p of the right class. "
        "scores is a tensor of shape (..., classes), labels an array of shape (...). No score may make it overflow.",
        (
            "You wrote the rule in exercise 6.1, and the stable value in 6.2.",
            "A table with True at the right class: labels[..., None] == np.arange(classes).",
            "The rule multiplies p - y by g and divides it by the number of labels, labels.size.",
        ),
    ),
    _exercise(
        "7.4",
        "modules",
        "Modules that find their parameters",
        "Write Linear.__call__, and Module.parameters: a list of all tensors among the attributes, of those in lists "
        "and tuples, and of those in the modules inside. A tensor that is there twice is listed once.",
        (
            "vars(self) is a dict with all attributes of a module.",
            "Keep a list of attributes to look at. A module or a list puts what is in it into the list.",
            'Compare tensors with "is" and not with "in": any(one is other for other in found).',
        ),
    ),
    _exercise(
        "8.4",
        "norm",
        "Normalization and a way around",
        "Write normalize(x, dim, eps) as one op with one rule, and Residual.__call__. The variance is the mean "
        "of the squares of the centred numbers; eps is added to it before the root.",
        (
            "The rule is your line of exercise 7.2, with gamma 1, and along dim in the place of 0.",
            "keepdims=True keeps the means in a shape that can be subtracted.",
            "Subtract from g its mean, and y times the mean of g * y. Then divide by the deviation.",
        ),
    ),
    _exercise(
        "9.5",
        "optim",
        "SGD and Adam for your engine",
        "Write SGD.step and Adam.step for all parameters of a network. A parameter without a gradient stays as it is.",
        (
            "The formulas are those of 9.2 and 9.3; the rate, the betas and eps are attributes.",
            "self.v[at] belongs to self.parameters[at]. Adam counts its steps from 1.",
            "Set parameter.data to a new array. Do not change the old one in place: rules may still use it.",
        ),
    ),
    _exercise(
        "10.4",
        "conv",
        "The rules of a convolution",
        "Write the function rule in conv2d, and the one in max_pool2d. That of conv2d gives the gradients of "
        "x and of weight, from the gradient g of shape (N, K, rows, columns).",
        (
            'For weight: sum products of patches and g over images and places, np.einsum("ncijhw,nkij->kchw", ...).',
            "For x: weight [i, j] met padded[:, :, i : i + rows, j : j + columns]. Add g times this weight back there, "
            "and cut the padding off in the end.",
            "For the pooling: g[..., None] * first puts each gradient at the largest place; then undo the reshape, the "
            "swapaxes and the first reshape, in this order.",
        ),
    ),
    _exercise(
        "11.4",
        "sequence",
        "Look up rows, and read in steps",
        "Write take(table, index): the rows of a table, with a rule for rows that are used several times. Then write "
        "RNN.__call__: in each step the memory h becomes tanh(memory(h) + letter(codes of this step)), and the scores "
        "are head(h). It begins with zeros and gives the list of all scores.",
        (
            "table.data[index] looks up rows. Begin the gradient with zeros, as many as the table has.",
            "back[index] += g counts a row that is there twice only once. np.add.at(back, index, g) adds up all.",
            "codes[:, step] has the codes of one step. The first h is a Tensor of np.zeros((len(codes), self.width)).",
        ),
    ),
    _exercise(
        "12.6",
        "attention",
        "Attention on your engine",
        "Write attention(q, k, v) for tensors of shape (..., length, width): no place looks at the places after it. "
        "Then write GPT.__call__: the vectors of the letters and of the places are added; all blocks follow, the last "
        "normalization, and the head.",
        (
            "You have all ops: @, transpose, softmax, and + with an array.",
            "np.triu(..., 1) is the part above the diagonal. -1e9 there is as good as minus infinity, and never NaN.",
            "self.place takes np.arange(codes.shape[1]); broadcasting adds it to each text of the batch.",
        ),
    ),
)
